"""A table of outcomes as JSON lines in the words of `TableOutcome`, for recorded workers and the reader `jsonl`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from orchestai.data.tables.outcome import MEASURES
from orchestai.data.tables.outcome_table import OutcomeTable
from orchestai.storage.artifacts import write_bytes


def write_outcomes(path: Path | str, table: OutcomeTable) -> None:
    """Write one line per query and worker of which anything is known; the same bytes for the same table.

    The first line of a worker has its card.

    Raises:
        UserError: it cannot be written.
    """
    lines = []
    cards = dict(table.cards)
    for row, (id, query, task_type) in enumerate(zip(table.ids, table.texts, table.task_types, strict=True)):
        for column, worker in enumerate(table.workers):
            measured = {name: float(getattr(table, name)[row, column]) for name in MEASURES}
            cell: dict[str, Any] = {name: value for name, value in measured.items() if np.isfinite(value)}
            if table.replies is not None and (reply := table.replies[row][column]) is not None:
                cell["reply"] = reply
            if cell:
                if card := cards.pop(worker, ""):
                    cell["card"] = card
                about = {"id": id, "query": query, "task_type": task_type, "worker": worker}
                lines.append(json.dumps(about | cell, ensure_ascii=False) + "\n")
    write_bytes(path, gzip.compress("".join(lines).encode(), mtime=0))
