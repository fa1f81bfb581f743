"""Expected costs follow the type and the length, and a new worker's card."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.estimate.attempts import Queries
from orchestai.estimate.spending import SpendingEstimate

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(5, 40, 200)
QUERIES = Queries(tuple("word " * length for length in LENGTHS), ("a", "b") * 100, np.zeros((200, 3)))
NOTHING = np.full(2, np.nan)


def test_longer_queries_cost_more_and_the_mean_is_kept():
    spent = LENGTHS[:, None] * np.array([1.0, 10.0])
    expected = SpendingEstimate.fit(QUERIES, spent, NOTHING).expected(QUERIES)
    assert expected.mean(axis=0) == pytest.approx(spent.mean(axis=0), rel=0.03)
    assert np.corrcoef(expected[:, 1], LENGTHS)[0, 1] > 0.9


def test_a_worker_that_was_never_measured_costs_what_its_card_says_and_as_types_differ():
    spent = np.stack([np.where(np.arange(200) % 2, 3.0, 1.0), np.full(200, np.nan)], axis=1)
    expected = SpendingEstimate.fit(QUERIES, spent, np.array([np.nan, 20.0])).expected(QUERIES)
    assert expected[0::2, 1].mean() == pytest.approx(10, rel=0.05)
    assert expected[1::2, 1].mean() == pytest.approx(30, rel=0.05)
