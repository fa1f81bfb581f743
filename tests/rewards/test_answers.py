"""Scores of answers are compared with published ones, so they must be what the official scripts compute."""

import pytest

from orchestai.outcome import Scored
from orchestai.rewards.answers import (
    f1,
    f1_reward_fn,
    normalize_answer,
    search_reward_fn,
    tagged_answer,
)
from orchestai.rewards.scorers import find_scorer
from orchestai.tasks.task import Task


@pytest.mark.parametrize(
    ("suite", "text", "expected"),
    [
        ("squad", "  The  Eiffel-Tower, (Paris)!", "eiffeltower paris"),
        ("squad", "A man; an apple_tree", "man appletree"),
        ("squad", "theatre another", "theatre another"),
        ("squad", "Café", "café"),
        ("hotpotqa", "The U.S.A.", "usa"),
        ("triviaqa", "The_U.S.A.", "u s"),  # "a" is an article once it stands alone, as in the official script
        ("triviaqa", "Rock ‘n’ Roll`s", "rock n roll s"),
        ("nq_open", "Café", "cafe\u0301"),
        ("nq_open", "Beyonce\u0301, the singer", "beyonce\u0301 singer"),
    ],
)
def test_normalisation_is_that_of_each_official_script(suite, text, expected):
    assert normalize_answer(text, suite) == expected


@pytest.mark.parametrize(
    ("suite", "prediction", "answers", "expected"),
    [
        ("squad", "in Paris, France", ["Paris"], 0.5),  # precision 1/3, recall 1
        ("squad", "Paris Paris", ["Paris"], 2 / 3),  # words count as often as they are there
        ("squad", "Rome", ["Paris"], 0.0),
        ("squad", "", ["Paris"], 0.0),
        ("squad", "big red dog", ["red dog", "big cat"], 0.8),
        ("squad", "yes it is", ["yes"], 0.5),
        ("hotpotqa", "yes it is", ["yes"], 0.0),
        ("hotpotqa", "no", ["no way"], 0.0),
        ("hotpotqa", "Yes.", ["yes"], 1.0),
        ("hotpotqa", "the yes man", ["yes prime minister"], 0.4),
        ("triviaqa", "Jean-Paul Sartre", ["jean paul"], 0.8),
    ],
)
def test_f1_is_that_of_each_official_script(suite, prediction, answers, expected):
    assert f1(prediction, answers, suite) == pytest.approx(expected)


def test_the_last_tagged_answer_counts():
    assert tagged_answer("<answer>a</answer> no: <answer>\n b </answer>") == "b"
    assert tagged_answer("just b") is None
    assert tagged_answer("<answer>b") is None


def test_rewards_go_by_the_tasks_suite():
    task = Task(task_id="1", suite="hotpotqa", instruct_prompt="Is it?", answers=("yes",))
    assert find_scorer("search_reward_fn")(task, "I think <answer>Yes</answer>", None) == Scored(1.0)
    assert search_reward_fn(task, "yes it is", None) == Scored(0.0)
    assert f1_reward_fn(task, "yes it is", None) == Scored(0.0)
    assert f1_reward_fn(task.model_copy(update={"suite": "written"}), "yes it is", None) == Scored(0.5)
