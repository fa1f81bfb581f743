"""Probabilities are held against what came of them."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.estimate.calibration import Calibration, expected_calibration_error, reliability, sigmoid


def test_the_error_is_the_distance_between_probability_and_score_over_bins_of_equal_numbers():
    estimated = np.array([0.1, 0.1, 0.9, 0.9, np.nan])
    score = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(reliability(estimated, score, bins=2), [[0.1, 0, 2], [0.9, 0.5, 2]])
    assert expected_calibration_error(estimated, score, bins=2) == pytest.approx((0.1 + 0.4) / 2)
    assert np.isnan(expected_calibration_error(np.array([np.nan]), np.array([1.0])))


def test_probabilities_that_are_too_sure_are_drawn_together():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=5000)
    score = (rng.random(5000) < sigmoid(truth)).astype(float)
    too_sure = sigmoid(3 * truth)
    calibration = Calibration.of(too_sure, score)
    assert calibration.slope == pytest.approx(1 / 3, abs=0.05)
    assert expected_calibration_error(calibration.apply(too_sure), score) < 0.03
    assert expected_calibration_error(too_sure, score) > 0.1
