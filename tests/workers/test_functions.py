"""Functions are written where words or examples are evidence for them, in English and German, and else declined."""

from __future__ import annotations

from typing import Any

import pytest

from orchestai.config import TasksConfig
from orchestai.execution.request import build_request
from orchestai.planner.baselines import whole_task
from orchestai.tasks.asked_task import asked_task
from orchestai.workers.base import Signature, WorkerError
from orchestai.workers.tools import stdlib_search
from orchestai.workers.tools.everyday import functions

WRITTEN = """
Write a function that checks whether a number is prime => (91) False; (97) True; (1) False
def a function that returns the factorial of n => (5) 120
Write a Python function that counts the vowels in a string => ('banana') 3
Write a function is_even(n), for example is_even(4) == True => (3) False
Write a function that reverses a string and converts it to uppercase => ('stone') 'ENOTS'
Write a function that takes a list of numbers and returns the average => ([1, 2, 6]) 3.0
Write a function that merges two sorted lists, e.g. merge([1, 3], [2]) == [1, 2, 3] => ([4], [1, 9]) [1, 4, 9]
write a function which returns the nth Fibonacci number => (10) 55
Write a function that converts a roman numeral to an integer => ('MCMXCIV') 1994
Write a function that converts an integer to a roman numeral => (1994) 'MCMXCIV'
Write a function that checks if a number is even => (3) False; (4) True
Write a function to reverse the words in a sentence => ('go to bed') 'bed to go'
Write a function that checks whether a list is sorted descending => ([3, 1]) True; ([1, 3]) False
Write a function that returns the difference of two lists => ([1, 2], [2]) [1]
Write a function that filters out negative numbers => ([1, -2, 3]) [1, 3]
Write a function that counts how often a word occurs in a text => ('to be or not to be', 'be') 2
write a function g with g(2)=4, g(3)=9, g(4)=16 => (5) 25
Schreibe eine Funktion, die prüft, ob ein Wort ein Palindrom ist => ('Anna') True; ('Otter') False
Schreibe eine Funktion, die die Summe einer Liste zurückgibt, zum Beispiel summe([1, 2, 3]) == 6 => ([4, 5]) 9
Programmiere eine Funktion, die Celsius in Fahrenheit umrechnet => (100) 212.0
Schreib mir eine Funktion, die eine Liste von Zahlen absteigend sortiert => ([2, 3, 1]) [3, 2, 1]
Schreibe eine Funktion, die den größten gemeinsamen Teiler zweier Zahlen berechnet => (12, 18) 6
Write a function foo(x): foo('abc') == 'cba', foo('hello') == 'olleh' => ('xy') 'yx'
"""
DECLINED = """
Write a function that implements the Levenshtein distance between two words
Write a function that counts the vowels of f('banana') == 6
Write a function that checks if a string contains only digits
Write a function that finds the maximum of a list without using max
Write a function mystery(x), mystery(2) is 3 times that, mystery(4) returns 5 or None and mystery(5) gives 7 if it can
Write a function mystery(a), mystery([3, 1, 2]) == [1, 2, 3]
Write a function odd_one(n), odd_one(4) == True and odd_one(5) == False
Schreibe eine Funktion, die eine E-Mail verschickt
"""


def written(words: str) -> tuple[str, str]:
    """Name and source of the function."""
    task = asked_task(words, None, TasksConfig())
    assert task.wants_program
    workflow = whole_task(task)
    request = build_request(task, workflow, workflow.subtasks[0], kind="dataflow")
    assert request.signature is not None
    return request.signature.name, functions.answer(request)


@pytest.mark.parametrize("line", WRITTEN.strip().splitlines())
def test_words_or_examples_speak_for_a_function(line: str) -> None:
    words, calls = line.split(" => ")
    name, source = written(words)
    space: dict[str, Any] = {}
    exec(source, space)
    for call in calls.split("; "):
        arguments, result = call[: call.index(")") + 1], call[call.index(")") + 1 :]
        assert eval(f"{name}{arguments} == {result}", space), source


@pytest.mark.parametrize("words", DECLINED.strip().splitlines())
def test_chance_does_not(words: str) -> None:
    with pytest.raises(WorkerError):
        written(words)


@pytest.mark.parametrize("parameters", [("x", "y"), ("number", "numbers"), ("a", "x"), ("letter", "item")])
def test_the_whole_catalogue_can_be_written_with_any_names(parameters: tuple[str, str]) -> None:
    for known in functions._catalogue():
        signature = Signature("f", parameters if known.kind == "pair" else parameters[:1])
        compile(stdlib_search.function(signature, [known.body]), "<catalogue>", "exec")
