"""Cells as strangers write them: half characters, other line ends, rounding, numbers for names."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from orchestai.data.tables import read_cards, read_outcome_table
from orchestai.data.tables.outcome_file import write_outcomes
from orchestai.data.tables.outcome_table import TableOutcome, table_of
from orchestai.errors import UserError
from orchestai.tasks.table_files import read_table


def test_half_a_character_in_a_reply_leaves_the_table_readable(tmp_path):
    """A cut emoji made a file that nothing could read."""
    table = table_of("t", [TableOutcome("", "q", "a", 1.0, reply="ok \ud83d"), TableOutcome("", "q", "b", 0.0)])
    write_outcomes(tmp_path / "t.jsonl.gz", table)
    again = read_outcome_table([tmp_path / "t.jsonl.gz"], "jsonl")
    assert again.replies == (("ok \ufffd", None),)
    assert again.digest == table.digest


def test_line_ends_and_space_around_it_make_no_other_query():
    """Two files, of which one was written on Windows, had no query in common."""
    table = table_of("t", [TableOutcome("", "q\r\nx ", "a", 1.0), TableOutcome("", "q\nx", "b", 0.0)])
    assert table.score.tolist() == [[1.0, 0.0]]
    table = table_of("t", [TableOutcome("", "q ", "a", 1.0, id="1"), TableOutcome("", "q", "b", 0.0, id="1")])
    assert len(table) == 1


def test_the_same_words_under_two_types_are_no_numbered_rows():
    """The table had been read, and what was written of it was refused."""
    kinds = [TableOutcome("", "q", w, 1.0, id=kind, task_type=kind) for w, kind in (("a", "maths"), ("b", "facts"))]
    assert len(table_of("t", kinds)) == 2


def test_a_mean_that_misses_one_by_rounding_is_one():
    table = table_of("t", [TableOutcome("", "q", "a", 1.0000000000000002), TableOutcome("", "q", "b", -1e-17)])
    assert table.score.tolist() == [[1.0, 0.0]]
    with pytest.raises(UserError, match=r"the score of 'a' is 1\.0001,"):
        table_of("t", [TableOutcome("", "q", "a", 1.0001)])


def test_what_pandas_calls_missing_is_missing():
    na = pd.NA
    table = table_of("t", [TableOutcome("", "q", "a", 1.0, id=na, task_type=na, cost_usd=na, reply=na)])
    assert (table.task_types, table.priced, table.replies) == (("",), False, None)


def test_a_worker_may_be_called_by_a_number(tmp_path):
    (tmp_path / "cards.yaml").write_text("7: Small and quick.\n")
    table = table_of("t", [TableOutcome("", "q", "7", 1.0)])
    assert table.with_cards(read_cards(tmp_path / "cards.yaml")).cards == {"7": "Small and quick."}


def test_rows_of_nothing_and_cells_behind_the_last_column_say_nothing(tmp_path):
    """Spreadsheets write both."""
    (tmp_path / "t.csv").write_text('query,worker,score\n"hi, you", "gpt-4, turbo", 1,\n,,\n  \nho,a,0\n')
    rows = [row for _, row in read_table(tmp_path / "t.csv")]
    assert rows == [
        {"query": "hi, you", "worker": "gpt-4, turbo", "score": "1"},
        {"query": "ho", "worker": "a", "score": "0"},
    ]
    (tmp_path / "t.csv").write_text("query,worker,score\nhi,a\n")
    with pytest.raises(UserError, match="2 cells under 3 column names; add what is missing"):
        read_table(tmp_path / "t.csv")


def test_rows_of_routerbench_that_are_half_a_mapping_are_refused_with_their_place(tmp_path):
    row = {"prompt": "q", "sample_id": "7", "id": None, "score": {"a": 1.0}, "cost_usd": {"a": 0.1}}
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(row))
    assert read_outcome_table([path], "routerbench").ids == ("7",)
    path.write_text(json.dumps(row | {"cost_usd": [0.1]}))
    with pytest.raises(UserError, match="line 1: `cost_usd` and `response` are mappings by model"):
        read_outcome_table([path], "routerbench")
    path.write_text('{"score": ' + "[" * 100_000)
    with pytest.raises(UserError, match="JSON that is nested too deeply"):
        read_outcome_table([path], "routerbench")


def test_a_cost_that_a_row_says_is_not_computed_from_prices(tmp_path):
    prices = {"m": {"input_price": 1.0, "output_price": 1.0}}
    (tmp_path / "default_llm.json").write_text(json.dumps(prices))
    row = {
        "query": "q",
        "model_name": "m",
        "performance": 1.0,
        "input_tokens": 10,
        "output_tokens": 10,
        "cost_usd": 0.5,
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    assert read_outcome_table([tmp_path / "t.jsonl"], "llmrouter").cost_usd.tolist() == [[0.5]]
