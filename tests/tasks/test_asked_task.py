"""What is asked says whether the answer is a program or a text, and what its function is called."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.config import TasksConfig
from orchestai.tasks.asked_task import asked_task, asks_for_program

PROGRAMS = (
    "Write a function that reverses a string.",
    "Could you please write me a small Python function for prime numbers?",
    "I need a function, and a fast one, that merges two lists",
    "def slug(text):",
    "Sort the list, so that task_func([3, 1]) == [1, 3]",
    "Implement quicksort",
    "Schreibe eine Funktion, die eine Liste sortiert",
    "Kannst du mir ein Programm schreiben, das Primzahlen ausgibt?",
    "Create a class Stack with push and pop",
)
TEXTS = (
    "What is 12 * 7?",
    "Sort these numbers: 5, 3, 9",
    "How do I write a function that reverses a list?",
    "Explain what this prints: def f(x): return x",
    "Write a SQL query that lists all customers",
    "Write a function in JavaScript that reverses a string",
    "Write a training program for beginners",
    "Write an essay on the function of art",
    "Was macht die Funktion sorted in Python?",
    "Gib mir ein Programm für das Wochenende",
    "Remove the file(s) that are named core",
)
DATA = Path(__file__).parents[3] / "shared" / "data"


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
        ("Schreibe eine Funktion namens quadrat", "quadrat", ("x",)),
        ("Write the function.\n>>> double(3)\n6", "double", ("a",)),
        ("Write a function that checks whether a number is prime", "is_prime", ("number",)),
        ("Write a function that adds two numbers", "add_two_numbers", ("first", "second")),
        ("Write a function called with a list", "task_func", ("items",)),
    ],
)
def test_a_function_keeps_its_name(words: str, name: str, parameters: tuple[str, ...]) -> None:
    task = asked_task(words, None, TasksConfig())
    assert (task.entry_point, task.parameters) == (name, parameters)


def told() -> Iterator[tuple[str, list[str], bool]]:
    for name, file, fields, program in (
        ("humaneval", "HumanEval", ("prompt",), True),
        ("mbpp", "mbpp", ("text",), True),
        ("bigcodebench", "BigCodeBench", ("instruction",), True),
        ("asked", "asked", ("instruction", "input"), False),
        ("nl2bash", "nl2bash", ("description",), False),
        ("gsm8k", "test", ("question",), False),
        ("strategyqa", "strategyqa", ("question",), False),
    ):
        with gzip.open(DATA / name / f"{file}.jsonl.gz", "rt") as lines:
            yield name, ["\n".join(json.loads(line)[field] for field in fields) for line in lines], program


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data, which are no part of the project")
def test_what_others_asked_is_told_apart() -> None:
    for name, instructions, program in told():
        right = sum(asks_for_program(words) is program for words in instructions)
        assert right / len(instructions) > 0.99, name
