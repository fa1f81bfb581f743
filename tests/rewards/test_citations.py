"""Reports earn by facts whose citations hold; each way of citing falsely costs what can be counted by hand."""

from __future__ import annotations

import pytest

from orchestai.rewards.citations import judge_report

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
