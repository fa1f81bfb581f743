"""The estimate learns from all attempts: words where they tell, track records where not, and failures so far."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.estimate.attempts import Attempts, Queries, price_cards
from orchestai.estimate.calibration import Calibration, sigmoid
from orchestai.estimate.success import SuccessEstimate, fit_success, group_folds, learn

QUERIES, WORKERS = 300, 4
INTERCEPTS = np.array([-1.0, 0.0, 0.5, 1.5])


def attempts(*, told: float) -> Attempts:
    """Queries of one hidden difficulty, of which the first feature tells so much; workers differ in ability."""
    rng = np.random.default_rng(3)
    words = rng.normal(size=(QUERIES, 6))
    difficulty = told * words[:, 0] + np.sqrt(1 - told**2) * rng.normal(size=QUERIES)
    chance = sigmoid(INTERCEPTS + 2 * difficulty[:, None])
    score = (rng.random((QUERIES, WORKERS)) < chance).astype(float)
    queries = Queries(("a query",) * QUERIES, ("",) * QUERIES, words)
    return Attempts(queries, score, np.zeros((WORKERS, 1)), np.arange(QUERIES))


@pytest.fixture(scope="module")
def told() -> SuccessEstimate:
    return fit_success(attempts(told=0.9)).estimate


def test_words_count_where_they_tell_and_hardly_where_they_do_not(told):
    assert sum(told.strengths) >= 0.1
    success = told.success(attempts(told=0.9).queries)
    easy = attempts(told=0.9).queries.embeddings[:, 0] > 0
    assert success[easy].mean() > success[~easy].mean() + 0.2
    untold = fit_success(attempts(told=0.0)).estimate
    assert np.ptp(untold.success(attempts(told=0.0).queries), axis=0).max() < 0.15


def test_a_worker_without_attempts_is_expected_to_do_as_others_do_and_a_few_attempts_move_it():
    every = attempts(told=0.5)
    unknown = every.score.copy()
    unknown[:, 3] = np.nan
    queries, strengths = every.queries, (0.1, 0.0)

    def expected(score):
        own = Attempts(queries, score, every.cards, every.groups)
        return learn(own, strengths, Calibration()).success(queries)[:, 3].mean()

    nothing = expected(unknown)
    others = np.nanmean(unknown)
    assert abs(nothing - others) < 0.1
    unknown[:20, 3] = every.score[:20, 3]
    assert nothing < expected(unknown) <= every.score[:, 3].mean() + 0.1


def test_groups_are_held_out_together():
    groups = np.repeat(np.arange(20), 3)
    folds = group_folds(groups, seed=1).reshape(20, 3)
    assert (folds == folds[:, :1]).all()
    assert set(folds[:, 0]) == set(range(5))


def test_a_new_worker_is_expected_to_do_as_those_with_a_similar_price():
    """Here those of a high price are good."""
    rng = np.random.default_rng(0)
    good = np.array([True, False] * 5)
    score = (rng.random((300, 10)) < np.where(good, 0.85, 0.35)).astype(float)
    score[:, :2] = np.nan
    cards = price_cards(np.where(good, 0.1, 0.01) * np.exp(rng.normal(0, 0.02, 10)))
    queries = Queries(tuple(f"query {row}" for row in range(300)), ("",) * 300, rng.normal(size=(300, 4)))
    expected = learn(Attempts(queries, score, cards, np.arange(300)), (0.0, 0.0), Calibration()).success(queries)
    new_good, new_bad = expected[:, 0].mean(), expected[:, 1].mean()
    assert new_good > new_bad + 0.2
