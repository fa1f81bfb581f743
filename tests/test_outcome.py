"""Faults of nobody are counted by what they are, and a command ends where there are too many of them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Unscorable, reward_number


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12.0 s passed, 0.3 s of them in calls", "7 s passed, 11.25 s of them in calls"),
        ("http://127.0.0.1:8000/v1: HTTP 503 after 4 tries", "http://127.0.0.1:43211/v1: HTTP 503 after 2 tries"),
        ("request req_011CSHoEeqs5C35K failed", "request req_0aa2 failed"),
        ("run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone", "run 9b2d77aa-0000-41d3-8a0c-a305e82c33ff is gone"),
        ("at 2026-11-22 09:41:28,123 the server fell", "at 2026-12-01 10:00:00,001 the server fell"),
        ("no recording of m, for the prompt ending in 'a list'", "no recording of m, for the prompt ending in 'b'"),
    ],
)
def test_reasons_that_differ_in_numbers_and_quotations_are_one(one: str, other: str) -> None:
    """Each carried its own times and ids, so the commonest reason of a broken run was counted once."""
    assert Unscorable("timeout", one).group == Unscorable("timeout", other).group
    assert Unscorable("timeout", one).group != Unscorable("server", one).group


@pytest.mark.parametrize(
    "value", [1, 1.0, True, "1", " 1.0 ", np.float32(1), np.array([1]), np.array(1), np.bool_(True)]
)
def test_a_reward_is_a_number_of_whatever_type(value: object) -> None:
    assert reward_number(value) == 1.0


@pytest.mark.parametrize(
    "value",
    [None, "", "one", "nan", math.nan, math.inf, [1.0], {}, np.array([1, 2]), np.array([]), object(), 1j, 10**400],
)
def test_what_is_no_number_is_no_reward(value: object) -> None:
    with pytest.raises(UserError, match="one finite number"):
        reward_number(value)


def test_an_infrastructure_error_survives_another_process() -> None:
    error = pickle.loads(pickle.dumps(InfrastructureError("timeout", "no answer")))
    assert (error.kind, str(error)) == ("timeout", "no answer")
    assert Unscorable.of(error) == Unscorable("timeout", "no answer")
