"""Abstracts of scientific papers to expand: OpenMLRL/arXiv_abstract from the hub, or a file (SciTLDR's form too)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "OpenMLRL/arXiv_abstract"
HUB_SPLITS = {"train": "train[:1100]", "val": "val[:1100]"}
"""The splits of the published experiments."""
_HELD_OUT = 5
"""Of a file without splits, every fifth abstract is held out."""


def load(path: str | None = None) -> Suite:
    """The suite from the hub, from another hub name with the same splits, or from a file.

    A record has its text as `abstract_text`, `abstract` or `source` (SciTLDR's list of sentences). A file may name its
    records' `split`; of one that does not, every fifth record is `val`.
    """
    return Suite("arxiv_abstracts", {name: partial(_split, path, name) for name in HUB_SPLITS})


def _split(path: str | None, name: str) -> list[Task]:
    source = path or HUB_NAME
    records = read_records(source, HUB_SPLITS[name])
    if Path(source).is_file():
        records = [
            (
                where,
                {"paper_id": number, **record, "split": record.get("split", "train" if number % _HELD_OUT else "val")},
            )
            for number, (where, record) in enumerate(records, start=1)
        ]
        records = [(where, record) for where, record in records if record["split"] == name]
    else:
        records = [
            (where, {"paper_id": f"{name}/{i}", **record, "split": name}) for i, (where, record) in enumerate(records)
        ]
    return to_tasks(records, _task)


def _task(record: Record) -> Task:
    text = next((record[key] for key in ("abstract_text", "abstract", "source") if key in record), None)
    if text is None:
        raise KeyError("abstract_text")
    joined = text if isinstance(text, str) else " ".join(text)
    if not joined.strip():
        raise ValueError("the abstract is empty")
    abstract = " ".join(joined.split())
    return Task(
        task_id=f"arxiv/{record['paper_id']}",
        suite="arxiv_abstracts",
        split=record["split"],
        instruct_prompt=f"Expand this abstract into an introduction:\n\n{abstract}",
        details={"abstract": abstract, "title": record.get("title") or ""},
        source=record.get("licence") or "",
    )
