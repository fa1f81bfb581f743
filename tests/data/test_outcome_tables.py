"""Tables of others arrive whole: a missing cell stays missing, a wrong score is refused with its place."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from orchestai.data.outcome_table import OutcomeTable
from orchestai.data.table_readers import parse_columns, read_outcome_table
from orchestai.errors import UserError

LONG = [
    {"prompt": "2 + 2?", "model": "small", "correct": True, "usd": 0.1, "kind": "maths"},
    {"prompt": "2 + 2?", "model": "large", "correct": True, "usd": 0.9, "kind": "maths"},
    {"prompt": "Who?", "model": "small", "correct": False, "usd": None, "kind": "facts"},
]
COLUMNS = parse_columns(["query=prompt,worker=model", "score=correct,cost=usd", "task_type=kind"])


def write(path: Path, rows: list[dict]) -> Path:
    if ".csv" in path.suffixes:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), path)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def check_long(table: OutcomeTable) -> None:
    assert table.texts == ("2 + 2?", "Who?")
    assert table.task_types == ("maths", "facts")
    assert table.workers == ("small", "large")
    np.testing.assert_array_equal(table.score, [[1, 1], [0, np.nan]])
    np.testing.assert_array_equal(table.cost_usd, [[0.1, 0.9], [np.nan, np.nan]])
    assert np.isnan(table.latency_s).all()
    assert table.replies is None


@pytest.mark.parametrize(
    ("reader", "name"),
    [("csv", "t.csv"), ("csv", "t.csv.gz"), ("parquet", "t.parquet"), ("jsonl", "t.jsonl"), ("jsonl", "t.jsonl.gz")],
)
def test_every_long_form_gives_the_same_table(tmp_path, reader, name):
    table = read_outcome_table([write(tmp_path / name, LONG)], reader, COLUMNS)
    check_long(table)
    assert table.source == "t"
    assert table.digest == read_outcome_table([write(tmp_path / "u.jsonl", LONG)], "jsonl", COLUMNS).digest


def many(cells: dict[int, dict]) -> list[dict]:
    """Two workers on a hundred queries, with some rows changed."""
    rows = [{"prompt": f"{i} + 1?", "model": m, "correct": 1, "usd": 0.1} for i in range(100) for m in ("a", "b")]
    return [row | cells.get(i, {}) for i, row in enumerate(rows)]


@pytest.mark.parametrize("score", [1.5, 70, -0.1, "inf"])
def test_scores_of_another_scale_are_refused_with_their_place(tmp_path, score):
    path = write(tmp_path / "t.jsonl", [*LONG, LONG[0] | {"model": "other", "correct": score}])
    with pytest.raises(UserError, match=r"1 of 4 cells of score are out of range .*t\.jsonl, line 4\)"):
        read_outcome_table([path], "jsonl", COLUMNS)


def test_single_cells_out_of_range_are_clipped_or_missing_and_named(tmp_path):
    cells = {4: {"correct": -0.033}, 9: {"correct": 7}, 20: {"usd": -1}}
    columns = parse_columns(["query=prompt,worker=model", "score=correct,cost=usd"])
    table = read_outcome_table([write(tmp_path / "t.jsonl", many(cells))], "jsonl", columns)
    assert table.score[2, 0] == 0
    assert np.isnan(table.score[4, 1])
    assert np.isnan(table.cost_usd[10, 0])
    assert [line.split(" x ")[0] for line in table.left_out] == ["2", "1"]
    with pytest.raises(UserError, match="3 of 200 cells of score"):
        read_outcome_table(
            [write(tmp_path / "u.jsonl", many({i: {"correct": 7} for i in (1, 5, 9)}))], "jsonl", columns
        )


def test_what_cannot_be_used_is_counted_and_named(tmp_path):
    rows = [*LONG, *[LONG[0]] * 9, LONG[0] | {"prompt": " "}, LONG[0] | {"correct": "maybe"}, LONG[0] | {"model": None}]
    path = write(tmp_path / "t.jsonl", rows)
    table = read_outcome_table([path], "jsonl", COLUMNS)
    check_long(table)
    assert table.unusable == {
        "a second outcome of the same worker on the same query": 9,
        "a query without words": 1,
        "score is no number": 1,
        "no worker": 1,
    }
    assert f"1 x score is no number (the first: 'maybe', {path}, line 14)" in table.left_out
    assert f"1 x no worker (the first: {path}, line 15)" in table.left_out


ROUTERBENCH = {
    "id": "mbpp.1",
    "suite": "mbpp",
    "prompt": "['Write it.']",
    "score": {"small": 1.0, "large": None},
    "cost_usd": {"small": 0.001, "large": 0.02},
    "response": {"small": "['def f():\\r\\n    pass']", "large": "plain"},
}


def test_routerbench_in_json_lines(tmp_path):
    table = read_outcome_table([write(tmp_path / "r.jsonl", [ROUTERBENCH])], "routerbench")
    assert (table.source, table.ids, table.texts, table.task_types) == (
        "routerbench",
        ("mbpp.1",),
        ("Write it.",),
        ("mbpp",),
    )
    np.testing.assert_array_equal(table.score, [[1, np.nan]])
    np.testing.assert_array_equal(table.cost_usd, [[0.001, 0.02]])
    assert table.replies == (("def f():\r\n    pass", "plain"),)


def test_routerbench_in_its_published_columns(tmp_path):
    row = {
        "sample_id": "mbpp.1",
        "eval_name": "mbpp",
        "prompt": "['Write it.']",
        "oracle_model_to_route_to": "small",
    }
    for model in ("small", "large"):
        row |= {
            model: ROUTERBENCH["score"][model],
            f"{model}|model_response": ROUTERBENCH["response"][model],
            f"{model}|total_cost": ROUTERBENCH["cost_usd"][model],
        }
    wide = read_outcome_table([write(tmp_path / "r.parquet", [row])], "routerbench")
    assert wide.digest == read_outcome_table([write(tmp_path / "r.jsonl", [ROUTERBENCH])], "routerbench").digest


def test_a_reader_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_tables.py").write_text(
        "from orchestai.data.outcome_table import TableOutcome, UnusableOutcomeError\n"
        "def read(path):\n"
        "    yield TableOutcome(str(path), 'q', 'w', 0.5)\n"
        "    yield UnusableOutcomeError('no luck')\n"
    )
    monkeypatch.chdir(tmp_path)
    table = read_outcome_table([tmp_path / "x.dat"], "my_tables:read")
    assert (table.source, table.score[0, 0], table.unusable) == ("x", 0.5, {"no luck": 1})
