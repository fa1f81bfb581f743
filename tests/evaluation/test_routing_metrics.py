"""Metrics of routers have the values that their papers' formulas give by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.evaluation.tables.routing_metrics import (
    aiq,
    apgr,
    calls_curve,
    cpt,
    curve_through,
    hull_corners,
    hypervolume,
)

COST, QUALITY = np.array([1.0, 2.0, 3.0]), np.array([0.4, 0.7, 0.8])
POINTS = st.lists(
    st.tuples(st.floats(0, 9, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=20
)


def non_decreasing_hull(cost, quality):
    corners = hull_corners(cost, quality)
    return curve_through(cost[corners], quality[corners])


def test_a_point_below_the_line_between_its_neighbors_is_no_corner():
    cost, quality = non_decreasing_hull(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.5, 0.9, 0.8]))
    assert cost.tolist() == [0, 1, 3]
    assert quality.tolist() == [0, 0.5, 0.9]


@settings(deadline=None)
@given(POINTS)
def test_the_hull_is_above_every_point_concave_and_never_falls(points):
    cost, quality = np.array(points).T
    corners = non_decreasing_hull(cost, quality)
    assert (np.interp(cost, *corners) >= quality - 1e-9).all()
    assert (np.diff(corners[1]) >= 0).all()
    if (np.diff(corners[0]) > 1e-6).all():
        slopes = np.diff(corners[1]) / np.diff(corners[0])
        assert (np.diff(slopes) <= 1e-6 * np.abs(slopes[1:]).max(initial=1)).all()


def test_aiq_of_three_points():
    """Trapezoids: (.4 + .7) / 2 from 1 to 2, (.7 + .8) / 2 from 2 to 3; divided by the range, 2."""
    assert aiq(non_decreasing_hull(COST, QUALITY), 1, 3) == pytest.approx((0.55 + 0.75) / 2)


def test_aiq_goes_on_level_behind_the_last_point_and_from_nobody_before_the_first():
    assert aiq(non_decreasing_hull(COST, QUALITY), 1, 5) == pytest.approx((0.55 + 0.75 + 2 * 0.8) / 4)
    assert aiq(non_decreasing_hull(COST[1:2], QUALITY[1:2]), 1, 3) == pytest.approx(((0.35 + 0.7) / 2 + 0.7) / 2)


def test_hypervolume_counts_steps_not_coins():
    """From 1 to 2 the first point dominates .4, from 2 to 3 the second .7, from 3 to 4 the third .8."""
    assert hypervolume(COST, QUALITY, 4) == pytest.approx((0.4 + 0.7 + 0.8) / 4)
    assert hypervolume(COST, QUALITY, 2) == pytest.approx(0.4 / 2)


WEAK, STRONG = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0])


def test_calls_go_to_the_strong_model_by_preference():
    calls, score = calls_curve(np.array([4.0, 3.0, 2.0, 1.0]), WEAK, STRONG)
    assert calls.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert score.tolist() == [0.5, 0.75, 1, 1, 0.75]


def test_apgr_of_a_three_point_curve():
    """PGR rises from 0 to 2 at half the calls and falls to 1: (2 / 2 + 3 / 2) / 2."""
    calls, score = np.array([0.0, 0.5, 1.0]), np.array([0.6, 0.8, 0.7])
    assert apgr(calls, score) == pytest.approx(1.25)
    assert cpt(calls, score, 0.5) == pytest.approx(0.125)
    assert cpt(calls, score, 1) == pytest.approx(0.25)
