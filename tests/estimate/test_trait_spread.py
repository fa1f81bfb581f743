"""The spread of the traits is that of what outcomes make one believe of a type's queries."""

from __future__ import annotations

import numpy as np

from orchestai.estimate.item_response import NORMAL, POINTS, moments, normalized, relearned

TYPES = np.repeat([0, 1], [300, 100])
START = np.repeat(NORMAL, 3, axis=0)


def surely(point: int) -> np.ndarray:
    return np.eye(len(POINTS))[point]


def test_where_no_feature_moves_queries_it_is_the_mean_belief_beside_30_queries_of_the_usual():
    before = np.repeat(NORMAL, 400, axis=0)
    after = np.where(TYPES[:, None] == 0, surely(20), surely(150))
    spread = relearned(START, before, after, TYPES)
    every = (300 * surely(20) + 100 * surely(150) + 30 * NORMAL[0]) / 430
    np.testing.assert_allclose(spread[2], every)
    np.testing.assert_allclose(spread[0], (300 * surely(20) + 30 * every) / 330)
    np.testing.assert_allclose(spread[1], (100 * surely(150) + 30 * every) / 130)


def test_a_type_without_queries_is_spread_as_all_are():
    before = np.repeat(NORMAL, 400, axis=0)
    spread = START
    for _ in range(40):
        spread = relearned(spread, before, np.repeat(surely(20)[None], 400, axis=0), np.zeros(400, dtype=np.intp))
        before = np.repeat(spread[:1], 400, axis=0)
    np.testing.assert_allclose(spread[1], spread[2], atol=1e-9)


def test_where_features_move_queries_beliefs_come_to_agree_in_the_mean():
    rng = np.random.default_rng(2)
    tilts = rng.normal(size=(400, 2)) @ POINTS.T
    shape = np.where(np.abs(POINTS[:, 0]) > 1.5, 0.0, -6.0)
    after = normalized(shape + tilts)
    spread = START
    for _ in range(60):
        before = normalized(np.log(spread[TYPES]) + tilts)
        spread = relearned(spread, before, after, TYPES)
        np.testing.assert_allclose(spread.sum(axis=1), 1)
        assert (spread > 0).all()
    (given, _), (wanted, _) = moments(before), moments(after)
    np.testing.assert_allclose(given[TYPES == 0].mean(axis=0), wanted[TYPES == 0].mean(axis=0), atol=0.1)
    middle = np.abs(POINTS[:, 0]) < 1
    assert spread[0, middle].sum() < 0.2 < NORMAL[0, middle].sum()


def test_a_normal_spread_has_mean_0_and_variance_1():
    (mean,), (variance,) = moments(NORMAL)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(variance, 1, atol=0.01)
