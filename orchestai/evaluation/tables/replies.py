"""Replies that are programs, judged by running them: the first test may be seen, all of them decide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from orchestai.data.outcome_table import OutcomeTable, Values
from orchestai.errors import UserError
from orchestai.estimate.answers import SeenAnswers
from orchestai.estimate.comparators import REFUSED
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Sandbox
from orchestai.storage.byte_store import ByteStore
from orchestai.tasks.program_source import reply_program
from orchestai.tasks.task import Task

_MAX_STORED_BYTES = 1 << 28
_VERSION = 2
"""Of what is stored per program."""


@dataclass(frozen=True, eq=False)
class ProgramReplies:
    """What came of running a table's replies.

    Attributes:
        table: the queries for which there are tests; `score` is 1 where a reply passes all of them, else 0, and NaN
            where the sandbox could not judge it.
        visible: (queries, workers) 1 where it passes the first test, which a cascade may see.
    """

    table: OutcomeTable
    visible: Values

    def seen(self) -> SeenAnswers:
        """What may be seen: which replies pass the first test, and so say the same of it."""
        failing = (self.visible != 1).astype(np.intp)
        same = failing * (1 + np.arange(self.visible.shape[1]))
        names, types = np.unique(self.table.task_types, return_inverse=True)
        return SeenAnswers(same, failing, types, ("passes", REFUSED), tuple(names.tolist()))


def matching_tasks(table: OutcomeTable, tasks: Sequence[Task]) -> tuple[dict[int, Task], int]:
    """Row -> the task whose instruction begins with the row's text and goes on in another line, or ends there.

    Rows without such a task are left out, and rows with several of different tests, whose number is given.
    """
    by_beginning: dict[str, list[Task]] = {}
    for task in tasks:
        by_beginning.setdefault(task.instruct_prompt.split("\n")[0].strip(), []).append(task)
    found = {row: by_beginning.get(text.strip(), []) for row, text in enumerate(table.texts)}
    clear = {row: own[0] for row, own in found.items() if len({task.test for task in own}) == 1}
    return clear, sum(len(own) > 0 for own in found.values()) - len(clear)


def run_replies(
    table: OutcomeTable,
    tasks: dict[int, Task],
    sandbox: Sandbox,
    cache_dir: Path,
    progress: Callable[[str], object] = lambda _: None,
) -> ProgramReplies:
    """Run every reply against its task's tests.

    Args:
        tasks: by row.
        cache_dir: verdicts are kept in its folder `replies`, 256 MiB at most, by the program and its tests, unless a
            busy machine may have caused them.

    Raises:
        UserError: the table has no replies, or no task fits its queries.
    """
    if table.replies is None:
        raise UserError(f"{table.source}: this table holds no replies that could be run")
    if not tasks:
        raise UserError(f"{table.source}: none of its queries is the instruction of a task with tests")
    rows = sorted(tasks)
    store = ByteStore(cache_dir / "replies", _MAX_STORED_BYTES)

    async def passed_tests(task: Task, replies: Sequence[str | None]) -> list[list[bool] | None]:
        return await asyncio.gather(*(_tests_passed(task, reply, sandbox, store) for reply in replies))

    own = table.take(rows)
    visible, passed = np.full(own.score.shape, np.nan), np.full(own.score.shape, np.nan)
    assert own.replies is not None
    for index, (row, replies) in enumerate(zip(rows, own.replies, strict=True)):
        progress(f"running replies: query {index + 1} of {len(rows)}")
        for column, tests in enumerate(asyncio.run(passed_tests(tasks[row], replies))):
            if tests is not None:
                visible[index, column], passed[index, column] = tests[0], all(tests)
    return ProgramReplies(replace(own, score=passed), visible)


async def _tests_passed(task: Task, reply: str | None, sandbox: Sandbox, store: ByteStore) -> list[bool] | None:
    """Which tests a reply passes, in the order of their source; None where there is no reply, or no verdict."""
    if reply is None:
        return None
    code = reply_program(reply, task.entry_point, len(task.parameters))
    if code is None:
        return [False]
    key = json.dumps([_VERSION, code, task.test, task.entry_point])
    if (stored := store.load(key)) is not None:
        return [bool(passed) for passed in json.loads(stored)]
    report = await judge(sandbox, task, code)
    if report.status in ("infra_error", "broken", "refused"):
        return None
    tests = [test.outcome == "passed" for test in report.tests] or [False]
    if report.repeatable:
        store.save(key, json.dumps(tests).encode())
    return tests
