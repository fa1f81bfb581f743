"""DeepCoder's data: competition problems with tests that call a function, or feed a program's standard input (MIT).

The first tests are visible, as problem statements show them; the hidden ones are the longest of the others, as
DeepCoder takes them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "agentica-org/DeepCoder-Preview-Dataset"
_SPLITS = {"train": (f"{HUB_NAME}:primeintellect", "train"), "test": (f"{HUB_NAME}:lcbv5", "test")}
_VISIBLE, _HIDDEN = 2, 15
ENTRY_POINT = "run_program"
_AS_FUNCTION = f"""\
import builtins, contextlib, io, sys

def {ENTRY_POINT}(text):
    out = io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        with contextlib.redirect_stdout(out):
            exec(compile({{code!r}}, "program.py", "exec"), {{{{"__name__": "__main__", "input": builtins.input}}}})
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    return out.getvalue()
"""
_HEAD = """\
import unittest

def lines(text):
    return [line.split() for line in str(text).strip().splitlines()]

class Tests(unittest.TestCase):
"""


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file in its schema (`problem`, `tests`, perhaps `starter_code`, `metadata`)."""

    def split(name: str, hub: str, hub_split: str) -> list[Task]:
        records = read_records(path or hub, hub_split)
        numbered = [(where, {"number": i, **record}) for i, (where, record) in enumerate(records)]
        return to_tasks(numbered, partial(_task, split=name))

    return Suite("deepcoder", {name: partial(split, name, *source) for name, source in _SPLITS.items()})


def as_function(code: str) -> str:
    """A program that reads standard input and prints, as a module with `run_program(stdin) -> stdout`."""
    return _AS_FUNCTION.format(code=code)


def _task(record: Record, split: str) -> Task:
    tests = _tests(record["tests"])
    metadata = _json(record.get("metadata") or {})
    function = metadata.get("func_name") or next((test["fn_name"] for test in tests if test.get("fn_name")), None)
    starter = (record.get("starter_code") or "").strip()
    visible, others = tests[:_VISIBLE], tests[_VISIBLE:] or tests
    hidden = sorted(others, key=lambda test: -len(str(test["input"])))[:_HIDDEN]
    how = f"Write the function `{function}`." if function else "Read standard input and print the answer."
    head = f"\n\nBegin with:\n```python\n{starter}\n```" if starter else ""
    return Task(
        task_id=f"deepcoder/{split}/{record['number']}",
        suite="deepcoder",
        split=split,
        instruct_prompt=f"{record['problem'].strip()}\n\n{how}{head}",
        test=_source(hidden, function),
        entry_point=function or ENTRY_POINT,
        details={"visible_test": _source(visible, function), "stdin": function is None},
        source="agentica-org/DeepCoder-Preview-Dataset, MIT",
    )


def _tests(value: Any) -> list[dict[str, Any]]:
    """Tests are a list of {input, output}, or one {inputs: [...], outputs: [...]} with an `fn_name`."""
    tests = _json(value)
    if isinstance(tests, dict):
        pairs = zip(tests["inputs"], tests["outputs"], strict=True)
        tests = [{"input": given, "output": expected, "fn_name": tests.get("fn_name")} for given, expected in pairs]
    if not tests:
        raise ValueError("it has no tests")
    return tests


def _source(tests: list[dict[str, Any]], function: str | None) -> str:
    return _HEAD + "".join(
        f"    def test_{number}(self):\n        {_check(test, function)}\n" for number, test in enumerate(tests)
    )


def _check(test: dict[str, Any], function: str | None) -> str:
    given, expected = test["input"], test["output"]
    if function is None:
        return f"self.assertEqual(lines({ENTRY_POINT}({_text(given)!r})), lines({_text(expected)!r}))"
    if isinstance(given, str):  # one JSON value per line
        given, expected = [json.loads(line) for line in given.split("\n") if line.strip()], json.loads(expected)
    elif isinstance(expected, list) and len(expected) == 1:  # TACO wraps the one result in a list
        return f"self.assertIn({function}({', '.join(map(repr, given))}), ({expected!r}, {expected[0]!r}))"
    return f"self.assertEqual({function}({', '.join(map(repr, given))}), {expected!r})"


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
