"""Tasks of the user's own come from JSONL, CSV and Parquet alike, and what is wrong is named with its place."""

import json

import pytest
from pyarrow import Table, parquet

from orchestai.config import TasksConfig, load_config
from orchestai.tasks.splits import open_splits
from orchestai.tasks.suites import open_suite

ROWS = [
    {"id": "a", "question": "How far is it?", "answer": "12 km", "unit": "km"},
    {"id": "b", "question": "Which city, by the\nriver?", "answer": "Bonn, Germany", "unit": ""},
]
COLUMNS = {"instruction": "question", "answers": "answer", "task_id": "id"}


def write(path, rows=ROWS):
    if path.suffix == ".parquet":
        parquet.write_table(Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        quoted = [[f'"{value}"' for value in row.values()] for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *map(",".join, quoted)]) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tasks(path, columns=COLUMNS, **settings):
    suite = open_suite(TasksConfig(suite="file", path=str(path), columns=columns, **settings))
    return [task for split in suite.splits for task in suite.split(split)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_tasks(tmp_path, kind):
    first, second = tasks(write(tmp_path / f"trips.{kind}"), scorer="numeric")
    assert (first.task_id, first.suite, first.answers, first.scorer) == ("a", "trips", ("12 km",), "numeric")
    assert first.details == {"unit": "km"}
    assert second.instruction == "Which city, by the\nriver?"
    place = {"jsonl": "trips.jsonl, line 2", "csv": "trips.csv, line 3", "parquet": "trips.parquet, row 2"}[kind]
    assert second.place.endswith(place)


def test_fields_have_their_own_names_unless_mapped_and_a_tasks_scorer_stands(tmp_path):
    rows = [
        {"instruction": "2 + 2?", "answers": [4, "four", None], "scorer": "exact", "split": "train"},
        {"instruction": "Double it.", "tests": "assert double(2) == 4", "entry_point": "double", "parameters": "n"},
    ]
    first, second = tasks(write(tmp_path / "own.jsonl", rows), {}, scorer="numeric")
    assert (first.task_id, first.answers, first.scorer, first.split) == ("own/1", ("4", "four"), "exact", "train")
    assert second.wants_program
    assert "self" in second.test
    assert (second.entry_point, second.parameters, second.split) == ("double", ("n",), "test")


def test_a_configuration_names_the_file_beside_it(tmp_path):
    write(tmp_path / "trips.csv")
    pool = "workers: {pool: {calculator: {kind: tool, tool: calculator, card: Adds.}}}\n"
    settings = f"tasks: {{suite: file, path: trips.csv, columns: {json.dumps(COLUMNS)}, scorer: numeric}}\n"
    (tmp_path / "config.yaml").write_text(pool + settings)
    whole = open_splits(load_config(tmp_path / "config.yaml").tasks).whole
    assert [task.scorer for task in whole] == ["numeric", "numeric"]
