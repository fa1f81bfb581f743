"""MBPP: short functions described in a sentence, with asserts. From the hub, or a file of its authors."""

from __future__ import annotations

from functools import cache, partial

from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.text.syntax import functions, names, parameters, parse

HUB_NAME = "google-research-datasets/mbpp"
_HUB_SPLITS = "train+validation+test+prompt"
_SHOWN = 1
"""Asserts that the instruction shows; they name the function, as the authors' prompts do."""
SPLITS = {"train": range(601, 975), "validation": range(511, 601), "test": range(11, 511), "prompt": range(1, 11)}
"""The authors' splits, by number of the task."""


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from `mbpp.jsonl`, `sanitized-mbpp.json` or another hub name."""

    @cache
    def tasks() -> list[Task]:
        return to_tasks(read_records(path or HUB_NAME, _HUB_SPLITS), _task)

    def split(name: str) -> list[Task]:
        return [task for task in tasks() if task.split == name]

    return Suite("mbpp", {name: partial(split, name) for name in SPLITS})


def _task(record: Record) -> Task:
    number = int(record["task_id"])
    code = record["code"].replace("\r\n", "\n")
    asserts = [line.replace("\r\n", "\n") for line in record["test_list"]]
    body = [statement for line in asserts for statement in parse(line)]
    source = "\n".join([record.get("test_setup_code") or "", *record.get("test_imports", ())])
    setup = parse(source.replace("\r\n", "\n"))
    defined, used = functions(code), names(body)
    tested = [name for name in defined if name in used]
    if not tested:
        raise ValueError(f"MBPP {number}: no function of its code is tested")
    text = (record["text"] if "text" in record else record["prompt"]).strip()
    shown = "\n".join(asserts[:_SHOWN])
    return Task(
        task_id=f"MBPP/{number}",
        suite="mbpp",
        split=next(name for name, numbers in SPLITS.items() if number in numbers),
        instruct_prompt=f"{text}\nYour code should satisfy:\n{shown}",
        canonical_solution=code,
        test=as_test_case(body, setup),
        entry_point=tested[0],
        parameters=parameters(defined[tested[0]]),
        source="github.com/google-research/google-research/tree/master/mbpp, CC-BY-4.0",
    )
