"""Questions with short answers: what TriviaQA, NQ-open and HotpotQA have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def question_suite(
    name: str,
    hub: Mapping[str, tuple[str, str]],
    path: str | None,
    convert: Callable[[Record, str], Task],
    within: str = "",
) -> Suite:
    """A suite of questions.

    Args:
        hub: for each split, the hub's data set and the name that it has there.
        path: a file or hub name instead; all that a file holds is in every split that is asked for.
        convert: makes a task of a record, which has its `number` in the split, and of the split's name.
        within: see `read_records`.
    """

    def split(split: str) -> list[Task]:
        data, hub_split = hub[split]
        records = read_records(path or data, hub_split, within=within)
        numbered = [(where, {"number": i, **record}) for i, (where, record) in enumerate(records)]
        return to_tasks(numbered, partial(_convert, convert, split))

    return Suite(name, {each: partial(split, each) for each in hub})


def _convert(convert: Callable[[Record, str], Task], split: str, record: Record) -> Task:
    task = convert(record, split)
    if not task.answers:
        raise ValueError("it has no answer; the answers of this split may be hidden")
    return task
