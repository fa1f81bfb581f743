"""RouterBench (Hu et al. 2024, arXiv 2403.12031): per query a score and a cost in US dollars per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.tables.outcome_table import TableOutcome, absent, measures, outcome_rows, printed_list
from orchestai.errors import UserError

_COST, _REPLY = "|total_cost", "|model_response"


def read(path: Path) -> Iterator[TableOutcome]:
    """Rows of a file, or of all such files of a folder.

    Read are the published columns (`sample_id`, `prompt`, `eval_name`, and per model `MODEL`, `MODEL|total_cost`,
    `MODEL|model_response`) in CSV or Parquet, and JSON lines in which `score`, `cost_usd` and, where there are replies,
    `response` are mappings by model. Prompts and replies that are printed lists become text.
    """
    for file in files(path, "*.jsonl", "*.csv", "*.parquet"):
        yield from starmap(_outcome, (cell for where, row in outcome_rows(file) for cell in _cells(where, row)))


def _cells(where: str, row: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    if isinstance(row.get("score"), dict):
        costs, replies = row.get("cost_usd") or {}, row.get("response") or {}
        if not (isinstance(costs, dict) and isinstance(replies, dict)):
            raise UserError(f"{where}: `cost_usd` and `response` are mappings by model where `score` is one")
        for worker, score in row["score"].items():
            yield where, row, row.get("suite"), worker, (score, costs.get(worker), replies.get(worker))
        return
    models = [column.removesuffix(_COST) for column in row if column.endswith(_COST)]
    if "prompt" not in row or not models or not set(models) <= row.keys():
        raise UserError(
            f"{where}: not a row of RouterBench, which has `prompt` and, per model, MODEL and MODEL{_COST}, or "
            "mappings `score` and `cost_usd`"
        )
    for worker in models:
        yield where, row, row.get("eval_name"), worker, (row[worker], row[worker + _COST], row.get(worker + _REPLY))


def _outcome(
    where: str, row: Mapping[str, Any], task_type: Any, worker: str, cell: tuple[Any, Any, Any]
) -> TableOutcome:
    score, cost, reply = cell
    return TableOutcome(
        where=where,
        id=row.get("sample_id", "") if absent(row.get("id")) else row["id"],
        query=printed_list(row.get("prompt")),
        task_type=task_type,
        worker=worker,
        reply=None if absent(reply) else printed_list(reply),
        **measures({"score": score, "cost_usd": cost}),
    )
