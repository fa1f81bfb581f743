"""LLMRouter's routing data (github.com/ulab-uiuc/LLMRouter): JSON lines, one per query and model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.tables.long_form import column_names, outcome
from orchestai.data.tables.outcome_table import TableOutcome, measures, outcome_rows, text
from orchestai.errors import UserError

_COLUMNS = {
    "query": "query",
    "worker": "model_name",
    "score": "performance",
    "task_type": "task_name",
    "cost_usd": "cost",
    "latency_s": "response_time",
    "tokens": "output_tokens",
    "reply": "response",
}
_NEEDED = ("query", "worker", "score")
_CANDIDATES = "default_llm.json"


def read(path: Path) -> Iterator[TableOutcome]:
    """Rows of a routing data file, or of all .jsonl files of a folder.

    Where rows have no `cost`, it is that of their `input_tokens` and `output_tokens` at the prices per million tokens
    of `default_llm.json`, which LLMRouter keeps beside the file or in the folder `llm_candidates` beside its folder.
    """
    for file in files(path, "*.jsonl"):
        rows = outcome_rows(file)
        present = {name for _, row in rows for name in row}
        wanted = {field: name for field, name in _COLUMNS.items() if name in present or field in _NEEDED}
        named = column_names(present, wanted, str(file))
        prices = {} if "cost" in present else _prices(file)
        yield from starmap(_outcome, ((where, row, named, prices) for where, row in rows))


def _outcome(
    where: str, row: Mapping[str, Any], named: Mapping[str, str], prices: Mapping[str, tuple[float, float]]
) -> TableOutcome:
    found = outcome(where, row, named)
    price = prices.get(text(found.worker).strip())
    if price is None or found.cost_usd is not None:
        return found
    tokens = measures({name: row.get(name) for name in ("input_tokens", "output_tokens")})
    if tokens["unread"]:
        return replace(found, unread={**found.unread, "cost_usd": next(iter(tokens["unread"].values()))})
    if tokens["input_tokens"] is None or tokens["output_tokens"] is None:
        return found
    cost = (tokens["input_tokens"] * price[0] + tokens["output_tokens"] * price[1]) / 1e6
    return replace(found, cost_usd=cost)


def _prices(file: Path) -> dict[str, tuple[float, float]]:
    """Model -> US dollars per million tokens of input and of output; empty where there is no list of candidates."""
    folder = file.resolve().parent
    for path in (folder / _CANDIDATES, folder.parent / "llm_candidates" / _CANDIDATES):
        if path.is_file():
            try:
                candidates = json.loads(path.read_text(encoding="utf-8"))
                return {
                    name: (float(model["input_price"]), float(model["output_price"]))
                    for name, model in candidates.items()
                    if {"input_price", "output_price"} <= model.keys()
                }
            except (OSError, ValueError, TypeError, AttributeError) as error:
                raise UserError(f"{path}: not LLMRouter's list of candidates with prices: {error}") from None
    return {}
