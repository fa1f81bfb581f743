"""Scores of answers are compared with published ones, so they must be what the official scripts compute."""

import pytest

from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.answers import (
    brevity,
    exact_match,
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


def test_any_answer_may_match():
    assert exact_match("the 14 December 1972", ["May 1961", "14 December 1972"]) == 1.0
    assert exact_match("December", ["14 December 1972"]) == 0.0
    assert exact_match("", []) == 0.0
    assert exact_match("Beyoncé", ["Beyonce\u0301"]) == 0.0
    assert exact_match("Beyoncé", ["Beyonce\u0301"], "nq_open") == 1.0


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


def test_a_question_without_an_answer_cannot_be_judged():
    task = Task(task_id="given", suite="given", instruct_prompt="Why?")
    assert search_reward_fn(task, "because", None) == Unscorable("task", "nobody knows the answer to task given")


def test_a_text_is_not_short_for_want_of_blanks():
    """TriviaQA's rules read `one,two` as two words, so passages copied with commas for blanks would hold the answer."""
    for text in ("one two three four", "one,two_three\nfour."):
        assert (brevity(text, 4), brevity(text, 2)) == (1.0, 0.5)
    assert brevity("", 2) == 1.0
