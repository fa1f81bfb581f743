"""NQ-open: questions that people asked a search engine, with short answers (Lee et al. 2019)."""

from __future__ import annotations

from orchestai.tasks.qa.questions import question_suite
from orchestai.tasks.records import Record
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "google-research-datasets/nq_open"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from `NQ-open.train.jsonl` or `NQ-open.dev.jsonl` of its authors.

    The development questions, on which results are published, are the split `test`.
    """
    return question_suite("nq_open", {"train": (HUB_NAME, "train"), "test": (HUB_NAME, "validation")}, path, _task)


def _task(record: Record, split: str) -> Task:
    return Task(
        task_id=f"nq_open/{split}/{record['number']}",
        suite="nq_open",
        split=split,
        instruct_prompt=record["question"],
        answers=tuple(record["answer"]),
        source="github.com/google-research-datasets/natural-questions, CC BY-SA 3.0",
    )
