"""HotpotQA: questions whose answers take two articles to find (Yang et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchestai.tasks.qa.questions import question_suite
from orchestai.tasks.records import Record
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "hotpotqa/hotpot_qa:distractor"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors, such as `hotpot_dev_distractor_v1.json`.

    The development questions, on which results are published, are the split `test`.
    """
    return question_suite("hotpotqa", {"train": (HUB_NAME, "train"), "test": (HUB_NAME, "validation")}, path, _task)


def _task(record: Record, split: str) -> Task:
    """`details` has the question's `type`, and, where the file has them, `passages` (`title`, `text`) to search in and
    the `supporting_titles` among them. The authors' files list pairs where the hub has columns."""
    details: dict[str, Any] = {"type": record.get("type", "")}
    if "context" in record:
        pairs = _pairs(record["context"], "sentences")
        details["passages"] = [{"title": title, "text": "".join(sentences)} for title, sentences in pairs]
    if "supporting_facts" in record:
        pairs = _pairs(record["supporting_facts"], "sent_id")
        details["supporting_titles"] = list(dict.fromkeys(title for title, _ in pairs))
    name = record.get("_id", record.get("id", f"{split}/{record['number']}"))
    return Task(
        task_id=f"hotpotqa/{name}",
        suite="hotpotqa",
        split=split,
        instruct_prompt=record["question"],
        answers=(record["answer"],) if record.get("answer") else (),
        details=details,
        source="hotpotqa.github.io, CC BY-SA 4.0",
    )


def _pairs(value: Any, second: str) -> Iterable[tuple[str, Any]]:
    return zip(value["title"], value[second], strict=True) if isinstance(value, dict) else value
