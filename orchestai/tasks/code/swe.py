"""SWE-bench: issues of Python repositories, each with a commit, and the tests that a patch must make pass.

The training split is SWE-Gym, which has the same fields; SWE-bench's own has no lists of tests."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "SWE-bench/SWE-bench_Verified"
TRAIN_HUB_NAME = "SWE-Gym/SWE-Gym"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file in its schema, of which each record may name its `split`.

    `details` holds `repo`, `base_commit`, `test_patch`, `FAIL_TO_PASS` and `PASS_TO_PASS`; `canonical_solution` is the
    reference patch.
    """

    def split(name: str, hub: str, hub_split: str) -> list[Task]:
        tasks = to_tasks(read_records(path or hub, hub_split), partial(_task, split=name))
        return [task for task in tasks if task.split == name]

    sources = {"train": (TRAIN_HUB_NAME, "train"), "test": (HUB_NAME, "test")}
    return Suite("swe", {name: partial(split, name, *source) for name, source in sources.items()})


def _task(record: Record, split: str) -> Task:
    details: dict[str, Any] = {name: record[name] for name in ("repo", "base_commit", "test_patch")}
    for name in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        tests = record[name]
        details[name] = json.loads(tests) if isinstance(tests, str) else list(tests)
    if not details["FAIL_TO_PASS"]:
        raise ValueError("FAIL_TO_PASS names no test; without one every patch would solve the issue")
    return Task(
        task_id=record["instance_id"],
        suite="swe",
        split=record.get("split", split),
        instruct_prompt=record["problem_statement"],
        canonical_solution=record["patch"],
        details=details,
        source=f"{record['repo']}; SWE-bench format",
    )
