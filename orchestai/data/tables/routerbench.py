"""RouterBench (Hu et al. 2024, arXiv 2403.12031): per query a score and a cost in US dollars per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.tables.cell_values import measures, number, outcomes_of, printed_list, text
from orchestai.data.tables.outcome_table import TableOutcome, UnusableOutcomeError
from orchestai.errors import UserError
from orchestai.tasks.table_files import read_table

_COST, _REPLY = "|total_cost", "|model_response"


def read(path: Path) -> Iterator[TableOutcome | UnusableOutcomeError]:
    """Rows of a file, or of all such files of a folder.

    Read are the published columns (`sample_id`, `prompt`, `eval_name`, and per model `MODEL`, `MODEL|total_cost`,
    `MODEL|model_response`) in CSV or Parquet, and JSON lines in which `score`, `cost_usd` and, where there are replies,
    `response` are mappings by model. Prompts and replies that are printed lists become text.
    """
    for file in files(path, "*.jsonl", "*.csv", "*.parquet"):
        yield from outcomes_of(
            _outcome, (cell for where, row in read_table(file, "outcome") for cell in _cells(where, row))
        )


def _cells(where: str, row: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    if isinstance(row.get("score"), dict):
        costs, replies = row.get("cost_usd") or {}, row.get("response") or {}
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
        id=text(row.get("id", row.get("sample_id"))),
        query=printed_list(row.get("prompt")),
        task_type=text(task_type),
        worker=worker,
        score=number(score, "score"),
        reply=None if reply is None else printed_list(reply),
        **measures({"cost_usd": cost}),
    )
