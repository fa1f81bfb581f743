"""What every plan keeps to, on text like that which people write."""

import numpy as np
import pytest

from orchestai.planner.slots.decoding_rules import for_texts, with_whole_text, word_edges
from orchestai.workflow import Subtask, Workflow


def tokens(text: str) -> np.ndarray:
    """Every character is a token, so that each boundary is asked for."""
    return np.array([(i, i + 1) for i in range(len(text))])


def plan(text: str, *steps: tuple[str, tuple[int, ...]]) -> Workflow:
    made = []
    for number, (words, parents) in enumerate(steps, start=1):
        start = text.index(words)
        depends_on = tuple(map(str, parents))
        span = (start, start + len(words))
        made.append(Subtask(id=str(number), instruction=words, depends_on=depends_on, span=span))
    return Workflow(made)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("open orm.properties now", "properties"),
        ("convert December 21, 1:00", "00"),
        ('print "find it, then sort" twice', "sort"),
        ("run `ls -l | wc` and wait", "wc"),
        ("about 3,500 of them", "500"),
    ],
)
def test_no_step_begins_inside_a_word_a_number_a_quotation_or_code(text: str, inside: str) -> None:
    begin, end = word_edges(text, tokens(text)).T
    start = text.index(inside)
    assert not begin[start]
    assert not end[start - 1]


def test_a_plan_of_one_step_is_the_whole_instruction() -> None:
    text = "I have 3 cats; tell a joke about cats, please"
    whole = with_whole_text(text, plan(text, ("joke about cats", ())))
    assert [step.instruction for step in whole.subtasks] == [text]


def test_a_modifier_joins_the_step_before_it_and_hands_on_its_edges() -> None:
    text = "list all files, following symlinks, then count them"
    made = for_texts(text, plan(text, ("list all files", ()), ("following symlinks", (1,)), ("count them", (2,))))
    assert [step.instruction for step in made.subtasks] == ["list all files, following symlinks", "count them"]
    assert made.dependencies() == [[], [0]]


def test_each_literal_stands_in_some_step() -> None:
    text = 'Given "stone" and 12: reverse the word, repeat it, using "-" between'
    made = for_texts(text, plan(text, ("reverse the word", ()), ("repeat it", (1,))))
    assert [step.instruction for step in made.subtasks] == [
        '"stone" and 12: reverse the word',
        'repeat it, using "-"',
    ]
