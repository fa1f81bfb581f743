"""Faults of nobody are counted by what they are, and a command ends where there are too many of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from orchestai.errors import UserError
from orchestai.outcome import Unscorable, reward_number
from orchestai.types import Decisions, Turn


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12.0 s passed, 0.3 s of them in calls", "7 s passed, 11.25 s of them in calls"),
        ("http://127.0.0.1:8000/v1: HTTP 503 after 4 tries", "http://127.0.0.1:43211/v1: HTTP 503 after 2 tries"),
        ("run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone", "run 9b2d77aa-0000-41d3-8a0c-a305e82c33ff is gone"),
        ("no recording of m, for the prompt ending in 'a list'", "no recording of m, for the prompt ending in 'b'"),
    ],
)
def test_reasons_that_differ_in_numbers_and_quotations_are_one(one: str, other: str) -> None:
    """Each carried its own times and ids, so the commonest reason of a broken run was counted once."""
    assert Unscorable("timeout", one).group == Unscorable("timeout", other).group
    assert Unscorable("timeout", one).group != Unscorable("server", one).group


def test_a_reward_is_a_number_of_whatever_type() -> None:
    ones = [1, 1.0, True, "1", " 1.0 ", np.float32(1), np.array([1]), np.array(1), np.bool_(True)]
    assert list(map(reward_number, ones)) == [1.0] * len(ones)


def test_what_is_no_number_is_no_reward() -> None:
    odd = (None, "", "one", "nan", math.nan, math.inf, [1.0], {}, np.array([1, 2]), np.array([]), object(), 1j, 10**400)
    for value in odd:
        with pytest.raises(UserError, match="one finite number"):
            pytest.fail(f"{value!r} is {reward_number(value)}")


# A wrong shape or a broken reward must stop where it is made, not as a strange loss much later.


NOTHING = torch.zeros(0)
DECISIONS = Decisions(1, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)


def turn(slots: int = 3, **changes) -> Turn:
    fields = {"logp": torch.zeros(slots), "mask": torch.ones(slots, dtype=torch.bool), "value": torch.zeros(slots)}
    fields["step"] = torch.zeros(slots, dtype=torch.long)
    return Turn(DECISIONS, policy_version=0, **(fields | changes))


@pytest.mark.parametrize(
    "wrong",
    [
        {"logp": torch.zeros(2)},
        {"mask": torch.ones(4, dtype=torch.bool)},
        {"value": torch.zeros(1, 3)},
        {"mask": torch.ones(3)},
        {"step": torch.zeros(2, dtype=torch.long)},
        {"sampler_logp": torch.zeros(2)},
        {"sampler_logp": torch.tensor([0.0, math.nan, 0.0])},
        {"logp": torch.tensor([0.0, math.nan, 0.0])},
        {"logp": torch.tensor([0.0, -math.inf, 0.0])},
    ],
)
def test_inconsistent_turns_are_refused(wrong):
    with pytest.raises(ValueError, match=r"turn's|finite"):
        turn(**wrong)
