"""Tasks of the user's own come from JSONL, CSV and Parquet alike, and what is wrong is named with its place."""

from __future__ import annotations

import json

import pytest
from pyarrow import Table, parquet

from orchestai.config import TasksConfig
from orchestai.tasks.asked_task import asked_task
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
    (tmp_path / "lists.csv").write_text(
        "instruction,answers,reference,tests\nCapital?,\"['Rome', 'Roma']\",the atlas,\n"
        "f,,,\"['assert f(1) == 1', 'assert f(2) == 2']\"\nSort,\"[1, 2]\",,\n"
    )
    first, second, third = tasks(tmp_path / "lists.csv", {})
    assert (first.answers, first.details["reference"], third.answers) == (("Rome", "Roma"), "the atlas", ("[1, 2]",))
    (tmp_path / "index.csv").write_text("\n \n,instruction,answers\nx,a,1\nx,b,2\n")
    assert [task.task_id for task in tasks(tmp_path / "index.csv", {})] == ["index/1", "index/2"]


# What is asked says whether the answer is a program or a text, and what its function is called.


PROGRAMS = (
    "Write a function that reverses a string.",
    "def slug(text):",
    "Sort the list, so that task_func([3, 1]) == [1, 3]",
    "Implement quicksort",
    "Schreibe eine Funktion, die eine Liste sortiert",
    "Create a class Stack with push and pop",
)
TEXTS = (
    "What is 12 * 7?",
    "How do I write a function that reverses a list?",
    "Write a SQL query that lists all customers",
    "Write a function in JavaScript that reverses a string",
    "Write a training program for beginners",
    "Write an essay on the function of art",
    "Gib mir ein Programm für das Wochenende",
)


@pytest.mark.parametrize(("words", "program"), [*((w, True) for w in PROGRAMS), *((w, False) for w in TEXTS)])
def test_a_program_is_written_only_where_one_is_asked_for(words: str, program: bool) -> None:
    assert asked_task(words, None, TasksConfig()).wants_program is program
    assert asked_task(words, "text", TasksConfig()).wants_program is False
    assert asked_task(words, None, TasksConfig(answer="program", suite="gsm8k")).wants_program is True


@pytest.mark.parametrize(
    ("words", "name", "parameters"),
    [
        ("def slug(text: str, sep='-') -> str:", "slug", ("text", "sep")),
        ("Write a function called slugify that turns a title into a slug", "slugify", ("text",)),
        ("Count the words. Use the name count_words(text).", "count_words", ("text",)),
        ("Write the function.\n>>> double(3)\n6", "double", ("a",)),
        ("Write a function that checks whether a number is prime", "is_prime", ("number",)),
        ("Write a function that adds two numbers", "add_two_numbers", ("first", "second")),
        ("Write a function called with a list", "task_func", ("items",)),
    ],
)
def test_a_function_keeps_its_name(words: str, name: str, parameters: tuple[str, ...]) -> None:
    task = asked_task(words, None, TasksConfig())
    assert (task.entry_point, task.parameters) == (name, parameters)
