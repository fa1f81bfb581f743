"""A wrong shape or a broken reward must stop where it is made, not as a strange loss much later."""

import math

import pytest
import torch

from orchestai.outcome import Reward, Unscorable
from orchestai.types import Decisions, Episode, Trajectory, Turn

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


def test_a_reward_is_a_number_or_a_reason():
    with pytest.raises(ValueError, match="Unscorable"):
        Episode("t", "t", (), Reward(math.nan))
    assert Episode("t", "t", (Trajectory("planner", "planner", (turn(),)),), Unscorable("server", "server down")).turns
