"""Tables of others arrive whole: a missing cell stays missing, a wrong score is refused with its place."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from orchestai.data.tables import find_table_reader, read_outcome_table
from orchestai.data.tables.cell_values import measures
from orchestai.data.tables.long_form import parse_columns
from orchestai.data.tables.outcome_table import OutcomeTable, TableOutcome, table_of
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


def test_columns_that_are_called_like_fields_need_no_mapping(tmp_path):
    rows = [{"query": "?", "worker": "w", "score": 0.5, "latency_s": 2, "tokens": 7, "reply": "", "id": 4}]
    table = read_outcome_table([write(tmp_path / "t.jsonl", rows)], "jsonl")
    assert (table.ids, table.latency_s[0, 0], table.tokens[0, 0], table.replies) == (("4",), 2, 7, (("",),))


def test_cost_and_latency_are_short_names_that_give_way_to_the_long_ones(tmp_path):
    row = {"query": "?", "worker": "w", "score": 1, "cost": 0.1, "latency": 2, "latency_s": 3}
    table = read_outcome_table([write(tmp_path / "t.csv", [row])], "csv")
    assert (table.cost_usd[0, 0], table.latency_s[0, 0]) == (0.1, 3)


def test_ids_that_number_the_rows_are_refused_and_may_be_left_out(tmp_path):
    rows = [{"id": row, "query": f"q{row // 2}", "worker": "wv"[row % 2], "score": 1} for row in range(4)]
    path = write(tmp_path / "t.csv", rows)
    with pytest.raises(UserError, match=r"'0' and '1' ask the same.*--columns id= "):
        read_outcome_table([path], "csv")
    table = read_outcome_table([path], "csv", parse_columns(["id="]))
    assert (table.texts, table.workers, table.score.tolist()) == (("q0", "q1"), ("w", "v"), [[1, 1], [1, 1]])
    apart = [row | {"query": f"q{row['id']}"} for row in rows]
    assert len(read_outcome_table([write(tmp_path / "u.csv", apart)], "csv")) == 4


def test_a_column_is_left_out_though_it_is_called_like_a_field(tmp_path):
    path = write(tmp_path / "t.csv", [row | {"cost": 7, "cost_usd": 8} for row in LONG])
    assert not read_outcome_table([path], "csv", COLUMNS | parse_columns(["cost_usd="])).priced


def test_the_name_of_a_column_may_hold_commas():
    words = ["query=the prompt, as sent (a, b),worker=model", "id="]
    assert parse_columns(words) == {"query": "the prompt, as sent (a, b)", "worker": "model", "id": ""}


def test_endings_may_be_in_any_case_and_others_are_no_csv(tmp_path):
    write(tmp_path / "t.csv", LONG).rename(tmp_path / "t.CSV")
    for path in (tmp_path, tmp_path / "t.CSV"):
        check_long(read_outcome_table([path], "csv", COLUMNS))
    (tmp_path / "t.CSV").rename(tmp_path / "t.txt")
    with pytest.raises(UserError, match=r"t\.txt: the reader csv takes files that end in \.csv"):
        read_outcome_table([tmp_path / "t.txt"], "csv", COLUMNS)


@pytest.mark.parametrize(
    ("score", "remedy"), [(1.5, "divide"), (70, "divide"), (-0.1, "correct it"), ("inf", "correct it")]
)
def test_a_score_outside_its_range_is_refused_with_its_row(tmp_path, score, remedy):
    path = write(tmp_path / "t.jsonl", [*LONG, LONG[0] | {"model": "other", "correct": score}])
    with pytest.raises(UserError, match=rf"t\.jsonl, line 4: .*'other'.*; {remedy}"):
        read_outcome_table([path], "jsonl", COLUMNS)


def test_a_negative_cost_is_refused_with_its_row(tmp_path):
    path = write(tmp_path / "t.jsonl", [LONG[0] | {"usd": -1}])
    with pytest.raises(UserError, match=r"line 1: cost_usd"):
        read_outcome_table([path], "jsonl", COLUMNS)


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


def test_numbers_that_are_mostly_no_numbers_are_refused_with_the_first():
    """Of decimal commas the whole numbers alone would survive, with another mean."""
    cells = ["0", "1", *["0,25"] * 2]
    outcomes = [
        TableOutcome(f"t.csv, line {row + 2}", f"q{row}", "w", **measures({"score": cell, "tokens": 7}))
        for row, cell in enumerate(cells * 4)
    ]
    with pytest.raises(UserError, match=r"t: 8 of 16 cells of score .*'0,25', t\.csv, line 4.*decimal point"):
        table_of("t", outcomes)
    few = [*outcomes[:2] * 9, outcomes[2]]
    assert table_of("t", few).unusable["score is no number"] == 1


def test_an_optional_column_without_numbers_may_be_left_out(tmp_path):
    path = write(tmp_path / "t.csv", [row | {"usd": "a dime"} for row in LONG])
    with pytest.raises(UserError, match=r"3 of 3 cells of cost_usd .*--columns cost_usd=$"):
        read_outcome_table([path], "csv", COLUMNS)


def test_a_score_that_nobody_gave_is_missing(tmp_path):
    table = read_outcome_table([write(tmp_path / "t.csv", [LONG[0] | {"correct": ""}, *LONG[1:]])], "csv", COLUMNS)
    assert np.isnan(table.score[0, 0])
    assert table.cost_usd[0, 0] == 0.1


def test_a_table_without_any_score_says_why(tmp_path):
    path = write(tmp_path / "t.jsonl", [LONG[0] | {"correct": "maybe"}])
    with pytest.raises(UserError, match="1 of 1 cells of score are no numbers"):
        read_outcome_table([path], "jsonl", COLUMNS)


@pytest.mark.parametrize(
    ("words", "key"),
    [("query", "FIELD=COLUMN"), ("scor=x", "did you mean 'score'"), ("score=", "FIELD=COLUMN")],
)
def test_a_wrong_mapping_is_refused(words, key):
    with pytest.raises(UserError, match=key):
        parse_columns([words])


def test_a_mapping_to_a_column_that_is_not_there_is_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", LONG)
    with pytest.raises(UserError, match="did you mean 'prompt'"):
        read_outcome_table([path], "jsonl", COLUMNS | {"query": "promt"})
    with pytest.raises(UserError, match="--columns worker=COLUMN"):
        read_outcome_table([path], "jsonl", {"query": "prompt"})


def test_one_id_stands_for_one_query():
    outcomes = [TableOutcome("here", "a", "w", 1.0, id="7"), TableOutcome("there", "b", "w", 1.0, id="7")]
    with pytest.raises(UserError, match=r"there: .*'7'.*here"):
        table_of("t", outcomes)


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


def test_an_empty_cell_of_routerbench_in_csv_is_no_reply(tmp_path):
    rows = [{"sample_id": 1, "prompt": "q", "eval_name": "t", "a": 1, "a|total_cost": 0.1, "a|model_response": ""}]
    assert read_outcome_table([write(tmp_path / "r.csv", rows)], "routerbench").replies is None


def test_a_cost_that_cannot_be_read_does_not_cost_the_score(tmp_path):
    rows = [LONG[0] | {"prompt": f"query {row}"} for row in range(10)]
    path = write(tmp_path / "t.jsonl", [LONG[0] | {"usd": "a dime"}, *rows])
    found = read_outcome_table([path], "jsonl", COLUMNS)
    assert (found.score[0, 0], np.isnan(found.cost_usd[:, 0]).tolist()) == (1, [True] + [False] * 10)
    assert found.unusable == {"cost_usd is no number, so that it is missing": 1}


def test_columns_of_routellm_that_are_about_the_query_are_no_workers(tmp_path):
    rows = [{"Unnamed: 0": 0, "id": "7", "prompt": "A or B?", "subject": "law", "weak": False, "strong": True}]
    rows[0] |= dict.fromkeys(("cost", "cost_usd", "latency", "latency_s", "tokens", "reply", "worker", "query"), 1)
    table = read_outcome_table([write(tmp_path / "t.csv", rows)], "routellm")
    assert (table.ids, table.task_types, table.workers) == (("7",), ("law",), ("weak", "strong"))


def test_routellm_takes_the_subject_from_the_files_name(tmp_path):
    rows = [{"prompt": "A or B?", "weak": False, "strong": True}]
    table = read_outcome_table([write(tmp_path / "mmlu_world_history.csv", rows)], "routellm")
    assert (table.task_types, table.workers) == (("world_history",), ("weak", "strong"))
    np.testing.assert_array_equal(table.score, [[0, 1]])
    assert not table.priced


def test_llmrouter_prices_tokens_by_its_list_of_candidates(tmp_path):
    row = {
        "task_name": "gsm8k",
        "query": "2 + 2?",
        "model_name": "small",
        "performance": 1.0,
        "input_tokens": 1000,
        "output_tokens": 500,
        "response_time": 1.5,
        "response": "4",
        "embedding_id": 0,
    }
    (tmp_path / "routing_data").mkdir()
    (tmp_path / "llm_candidates").mkdir()
    prices = {"small": {"input_price": 0.2, "output_price": 0.4}}
    (tmp_path / "llm_candidates" / "default_llm.json").write_text(json.dumps(prices))
    path = write(tmp_path / "routing_data" / "default_routing_train_data.jsonl", [row])
    table = read_outcome_table([path], "llmrouter")
    assert table.cost_usd[0, 0] == pytest.approx(1000 * 0.2e-6 + 500 * 0.4e-6)
    assert (table.latency_s[0, 0], table.tokens[0, 0], table.task_types) == (1.5, 500, ("gsm8k",))
    assert table.replies == (("4",),)


@pytest.mark.parametrize("reader", ["routerbench", "routellm", "llmrouter"])
def test_a_file_of_another_source_is_refused(tmp_path, reader):
    path = write(tmp_path / "t.jsonl", [{"question": "?"}])
    with pytest.raises(UserError, match=r"t\.jsonl"):
        read_outcome_table([path], reader)


def test_a_reader_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_tables.py").write_text(
        "from orchestai.data.tables.outcome_table import TableOutcome, UnusableOutcomeError\n"
        "def read(path):\n"
        "    yield TableOutcome(str(path), 'q', 'w', 0.5)\n"
        "    yield UnusableOutcomeError('no luck')\n"
    )
    monkeypatch.chdir(tmp_path)
    table = read_outcome_table([tmp_path / "x.dat"], "my_tables:read")
    assert (table.source, table.score[0, 0], table.unusable) == ("x", 0.5, {"no luck": 1})


def test_unknown_readers_and_needless_columns_are_refused():
    with pytest.raises(UserError, match="did you mean 'routerbench'"):
        find_table_reader("routerbench2", {})
    with pytest.raises(UserError, match="--columns"):
        find_table_reader("routellm", {"query": "prompt"})
    with pytest.raises(UserError, match="no_such_module"):
        find_table_reader("no_such_module:read", {})


def table(scores, **fields) -> OutcomeTable:
    outcomes = [
        TableOutcome("", f"query {row}", f"worker {column}", value, **fields)
        for row, values in enumerate(scores)
        for column, value in enumerate(values)
    ]
    return table_of("t", outcomes)


def test_parts_of_a_table_keep_what_belongs_together():
    whole = table([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]], reply="r")
    part = whole.take(np.array([2, 0])).only(["worker 1"])
    assert part.texts == ("query 2", "query 0")
    np.testing.assert_array_equal(part.score, [[0.5], [0.1]])
    assert part.replies == (("r",), ("r",))
    with pytest.raises(ValueError, match="worker 7"):
        whole.only(["worker 7"])


def test_the_digest_follows_the_content():
    assert table([[0.0, 1.0]]).digest == table([[0.0, 1.0]]).digest
    assert table([[0.0, 1.0]]).digest != table([[0.0, None]]).digest
    assert table([[0.0, 1.0]]).digest != table([[0.0, 1.0]], reply="r").digest


def test_the_first_outcome_with_a_score_counts():
    scores = (None, 0.25, 0.75)
    whole = table_of("t", [TableOutcome("", "q", "w", score) for score in scores])
    assert whole.score.tolist() == [[0.25]]
    assert sum(whole.unusable.values()) == 2


def test_an_outcome_needs_a_query_and_a_worker():
    """A reader of the user's own gives every row; one that cannot be used does not end the reading."""
    outcomes = [TableOutcome("here", query, "w", 1.0) for query in ("q", "", None, " \n", "a \ud83d b")]
    whole = table_of("t", [*outcomes, TableOutcome("there", "q", " ", 1.0)])
    assert whole.texts == ("q",)
    assert sorted(whole.unusable.values()) == [1, 1, 3]
    assert "3 x a query without words (the first: here)" in whole.left_out


def test_a_score_of_ones_own_reader_is_a_number():
    with pytest.raises(UserError, match=r"my\.jsonl, line 1: score of 'w' is '1', no number; .*None"):
        table_of("t", [TableOutcome("my.jsonl, line 1", "q", "w", "1")])
    missing = table_of("t", [TableOutcome("", "q", "w", float("nan")), TableOutcome("", "q", "v", True)])
    np.testing.assert_array_equal(missing.score, [[np.nan, 1]])


def test_space_around_names_makes_no_other_names():
    outcomes = [TableOutcome("", "q", name, 1.0, id=f" 7{name[1:]}", task_type="t ") for name in ("w", "v ")]
    whole = table_of("t", outcomes)
    assert (whole.ids, whole.workers, whole.task_types) == (("7",), ("w", "v"), ("t",))


def test_a_reply_that_is_not_a_number_is_missing():
    outcomes = [TableOutcome("", "q", name, 1.0, reply=reply) for name, reply in (("w", float("nan")), ("v", ""))]
    assert table_of("t", outcomes).replies == ((None, ""),)
