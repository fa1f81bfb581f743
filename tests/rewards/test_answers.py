"""Scores of answers are compared with published ones, so they must be what the official scripts compute."""

from __future__ import annotations

import pytest

from orchestai.outcome import Scored
from orchestai.rewards.answers import (
    exact_match,
    f1,
    f1_reward_fn,
    normalize_answer,
    search_reward_fn,
    tagged_answer,
)
from orchestai.rewards.citations import judge_report
from orchestai.rewards.scorers import find_scorer
from orchestai.tasks.task import Task

NORMALIZED = [
    ("squad", "  The  Eiffel-Tower, (Paris)!", "eiffeltower paris"),
    ("squad", "A man; an apple_tree", "man appletree"),
    ("squad", "theatre another", "theatre another"),
    ("squad", "Café", "café"),
    ("hotpotqa", "The U.S.A.", "usa"),
    ("triviaqa", "The_U.S.A.", "u s"),  # "a" is an article once it stands alone, as in the official script
    ("triviaqa", "Rock ‘n’ Roll`s", "rock n roll s"),
    ("nq_open", "Café", "cafe\u0301"),
    ("nq_open", "Beyonce\u0301, the singer", "beyonce\u0301 singer"),
]


def test_normalization_is_that_of_each_official_script():
    assert [(suite, text, normalize_answer(text, suite)) for suite, text, _ in NORMALIZED] == NORMALIZED


F1 = [
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
]


def test_f1_is_that_of_each_official_script():
    for suite, prediction, answers, expected in F1:
        assert f1(prediction, answers, suite) == pytest.approx(expected), (suite, prediction)


def test_an_answer_of_which_nothing_is_left_is_matched_as_it_is():
    """Nothing is left of "The The", nor of no answer at all, which was right."""
    assert [exact_match(said, ["The The"]) for said in ("", " ", "!!!", "The The")] == [0, 0, 0, 1]


def test_the_last_tagged_answer_counts():
    said = "<answer>a</answer> no: <answer>\n b </answer>", "just b", "<answer>b"
    assert [tagged_answer(text) for text in said] == ["b", None, None]


def test_rewards_go_by_the_tasks_suite():
    task = Task(task_id="1", suite="hotpotqa", instruct_prompt="Is it?", answers=("yes",))
    assert find_scorer("search_reward_fn")(task, "I think <answer>Yes</answer>", None) == Scored(1.0)
    assert search_reward_fn(task, "yes it is", None) == Scored(0.0)
    assert f1_reward_fn(task, "yes it is", None) == Scored(0.0)
    assert f1_reward_fn(task.model_copy(update={"suite": "written"}), "yes it is", None) == Scored(0.5)
    for right, said in ("yes", "Yes, it is."), ("Rome", "It is Rome, I think."), ("5 km", "2 + 3 makes 5."):
        own = task.model_copy(update={"answers": (right,)})
        assert [find_scorer("contains")(own, text, None).value for text in (said, "No: 7.")] == [1, 0]


# Reports earn by facts whose citations hold; each way of citing falsely costs what can be counted by hand.


DOCUMENTS = {
    "t1": "The Eiffel Tower in Paris was completed in 1889 and is 330 metres tall.",
    "t2": "The Tokyo Skytree was completed in 2012. It stands in Sumida and is 634 metres tall.",
}
FACTS = ("1889", "634 metres")
TRUE = "The Eiffel Tower was completed in 1889 [t1]. The Tokyo Skytree is 634 metres tall [t2]."


def test_a_report_whose_citations_hold_is_worth_all():
    figures = judge_report(TRUE, DOCUMENTS, FACTS)
    assert (figures.sentences, figures.citations, figures.false_citations) == (2, 2, 0)
    assert (figures.coverage, figures.precision, figures.recall, figures.reward) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("change", "precision", "recall", "coverage"),
    [
        (("[t2]", "[t9]"), 1 / 2, 1 / 2, 1),  # a document that does not exist
        (("[t2]", "[t1]"), 1 / 2, 1 / 2, 1),  # one that says something else
        (("[t2]", ""), 1, 1 / 2, 1),  # none
        (("[t2]", "[t2, t1]"), 2 / 3, 1, 1),  # one too many
        (("1889", "1887"), 1, 1 / 2, 1 / 2),  # a number that the document does not have
        (("The Tokyo Skytree is 634 metres tall [t2].", ""), 1, 1, 1 / 2),
    ],
)
def test_every_false_citation_costs(change, precision, recall, coverage):
    figures = judge_report(TRUE.replace(*change), DOCUMENTS, FACTS)
    assert (figures.precision, figures.recall, figures.coverage) == pytest.approx((precision, recall, coverage))
    assert figures.reward == pytest.approx(coverage * 2 * precision * recall / (precision + recall))


@pytest.mark.parametrize("report", ["", "\0", "[t1]", "[t1] [t2]", "[" * 9999, "." * 999, "1889. 634 metres."])
def test_nothing_is_earned_by_words_that_say_nothing_or_cite_nothing(report):
    assert judge_report(report, DOCUMENTS, FACTS).reward == 0
