"""Tasks of the user's own come from JSONL, CSV and Parquet alike, and what is wrong is named with its place."""

import json

import pytest
from pyarrow import Table, parquet

from orchestai.config import TasksConfig, load_config
from orchestai.errors import UserError
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


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t"), ("t.csv", ",")])
def test_the_first_line_of_a_table_tells_what_separates_its_columns(tmp_path, name, separator):
    (tmp_path / name).write_text(
        f'instruction{separator}"a,b;c,d;e"\n"1, 2; or 3?"{separator}x\n', encoding="utf-8-sig"
    )
    (task,) = tasks(tmp_path / name, {})
    assert (task.instruction, task.details) == ("1, 2; or 3?", {"a,b;c,d;e": "x"})


def test_the_first_record_may_go_over_lines_and_names_have_no_space_around_them(tmp_path):
    (tmp_path / "T.CSV").write_text('"the, whole,\ninstruction"; kind \na;b\n')
    (task,) = tasks(tmp_path / "T.CSV", {"instruction": "the, whole,\ninstruction"})
    assert (task.instruction, task.details) == ("a", {"kind": "b"})


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("instruction,kind, kind,,\na,b,c,,\n")
    with pytest.raises(UserError, match=r"t\.csv, line 1: two columns are called 'kind'; rename"):
        tasks(tmp_path / "t.csv", {})


def test_long_cells_and_marks_of_byte_order_are_read(tmp_path):
    text = "word " * 30_000 + "end"
    write(tmp_path / "t.csv", [{"instruction": text}])
    (tmp_path / "t.jsonl").write_text(json.dumps({"instruction": text}), encoding="utf-8-sig")
    for name in ("t.csv", "t.jsonl"):
        assert tasks(tmp_path / name, {})[0].instruction == text


def test_a_quote_that_ends_a_cell_too_early_is_named_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_text('instruction,kind\na,b\n"say \\"hi\\", you",b\n')
    with pytest.raises(UserError, match=r"t\.csv, line 3: cannot be read as CSV: .*write each quote as two"):
        tasks(tmp_path / "t.csv", {})


def test_text_that_is_not_utf8_is_refused_in_words(tmp_path):
    (tmp_path / "t.csv").write_bytes("instruction\nOù?\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"t\.csv: is no UTF-8 .*save it as UTF-8"):
        tasks(tmp_path / "t.csv", {})


def test_fields_have_their_own_names_unless_mapped_and_a_tasks_scorer_stands(tmp_path):
    rows = [
        {"instruction": "2 + 2?", "answers": [4, "four"], "scorer": "exact", "split": "train"},
        {"instruction": "Double it.", "tests": "assert double(2) == 4", "entry_point": "double", "parameters": "n"},
    ]
    first, second = tasks(write(tmp_path / "own.jsonl", rows), {}, scorer="numeric")
    assert (first.task_id, first.answers, first.scorer, first.split) == ("own/1", ("4", "four"), "exact", "train")
    assert second.wants_program
    assert "self" in second.test
    assert (second.entry_point, second.parameters, second.split) == ("double", ("n",), "test")


@pytest.mark.parametrize(
    ("name", "content", "columns", "words"),
    [
        ("t.csv", "question,answer\n1,2\n", {}, r"t\.csv: no column 'instruction'.*answer, question"),
        ("t.csv", "question,answer\n1,2\n", {"instruction": "questions"}, "'questions'.*did you mean 'question'"),
        ("t.csv", "instruction,answers\n1,2\n\n1,2,3\n", {}, r"t\.csv, line 4: 3 cells under 2"),
        ("t.csv", "instruction;answers\n1;2\n1;2;3\n", {}, r"t\.csv, line 3: 3 cells under 2"),
        ("t.csv", 'instruction\n"open', {}, "CSV"),
        ("t.csv", "", {}, "holds no tasks"),
        ("t.parquet", "no parquet", {}, "Parquet"),
        ("t.jsonl", '{"instruction": "?", "tests": "f("}', {}, r"line 1: .*column 'tests' \(tests\)"),
        ("t.jsonl", '{"instruction": {"a": 1}}', {}, r"line 1: .*column 'instruction'"),
        ("t.jsonl", '{"instruction": "?"}\n{"instruction": ""}', {}, "line 2: .*no instruction"),
        ("t.jsonl", '{"instruction": "?", "reference": "[1"}', {}, r"column 'reference'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, name, content, columns, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=words):
        tasks(tmp_path / name, columns)


def test_columns_belong_to_own_files():
    with pytest.raises(UserError, match=r"tasks\.suite=file"):
        open_suite(TasksConfig(suite="written", path="x.jsonl", columns=COLUMNS))


def test_a_configuration_names_the_file_beside_it(tmp_path):
    write(tmp_path / "trips.csv")
    pool = "workers: {pool: {calculator: {kind: tool, tool: calculator, card: Adds.}}}\n"
    settings = f"tasks: {{suite: file, path: trips.csv, columns: {json.dumps(COLUMNS)}, scorer: numeric}}\n"
    (tmp_path / "config.yaml").write_text(pool + settings)
    whole = open_splits(load_config(tmp_path / "config.yaml").tasks).whole
    assert [task.scorer for task in whole] == ["numeric", "numeric"]
