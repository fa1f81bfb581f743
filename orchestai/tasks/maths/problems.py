"""Maths questions with a reference answer: what GSM8K, MATH-500, AIME and DeepScaleR have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def math_suite(name: str, hub: Mapping[str, tuple[str, str]], path: str | None, source: str) -> Suite:
    """A suite of maths questions.

    Args:
        hub: for each split, the hub's data set and the name that it has there.
        path: a file or hub name instead; all that it holds is in every split that is asked for.
        source: where they come from, with license.
    """

    def split(split: str) -> list[Task]:
        data, hub_split = hub[split]
        records = read_records(path or data, hub_split)
        numbered = [(where, {"number": i, **record}) for i, (where, record) in enumerate(records)]
        return to_tasks(numbered, partial(_task, suite=name, split=split, source=source))

    return Suite(name, {each: partial(split, each) for each in hub})


def _task(record: Record, suite: str, split: str, source: str) -> Task:
    question = record["question"] if suite == "gsm8k" else record["problem"]
    return Task(
        task_id=f"{suite}/{split}/{record['number']}",
        suite=suite,
        split=split,
        instruct_prompt=question.strip(),
        answers=(_answer(str(record["answer"])),),
        scorer="maths",
        source=source,
    )


def _answer(text: str) -> str:
    """GSM8K gives a solution whose last line is `#### 1,234`; the others the answer itself."""
    return text.rpartition("####")[2].strip().replace(",", "") if "####" in text else text.strip()
