"""Where words begin and end is learned from every token: the loss counts what is known, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orchestai.planner.slots.heads import Boundaries
from orchestai.planner.slots.losses import PlannerOutputs, boundary_cross_entropy
from orchestai.planner.slots.targets import IGNORE

OFFSETS = torch.tensor([[[0, 4], [5, 8], [9, 12], [13, 17], [0, 0]]])
"""Four tokens, and one of padding."""
STEPS = torch.tensor([[True, True]])
SPANS = torch.tensor([[[0, 8], [9, 12]]])
"""Tokens 0 to 1, and token 2."""


def loss(logits: Tensor, spans: Tensor) -> float:
    outputs = PlannerOutputs(boundaries=logits, token_offsets=OFFSETS)  # type: ignore[typeddict-item]
    return boundary_cross_entropy(outputs, spans, STEPS).item()


def certain() -> Tensor:
    logits = torch.full((1, 5, 2), -20.0)
    for token, side in ((0, 0), (1, 1), (2, 0), (2, 1)):
        logits[0, token, side] = 20.0
    return logits


def test_what_is_right_costs_nothing_and_each_wrong_token_its_own() -> None:
    assert loss(certain(), SPANS) == pytest.approx(0, abs=1e-6)
    wrong = certain()
    wrong[0, 3, 0] = 20.0
    assert loss(wrong, SPANS) == pytest.approx(20.0 / 2)


def test_padding_and_plans_with_a_step_of_unknown_place_teach_nothing() -> None:
    padding = certain()
    padding[0, 4] = 20.0
    assert loss(padding, SPANS) == pytest.approx(0, abs=1e-6)
    assert loss(-certain(), torch.tensor([[[0, 8], [IGNORE, IGNORE]]])) == 0


def test_there_is_more_as_long_as_words_may_begin_where_tokens_are_free() -> None:
    free = torch.tensor([[[True] * 5, [False, False, False, True, True], [False] * 5]])
    more = Boundaries(4).more(certain(), free)[0].tolist()
    assert more[0] > 10
    assert more[1] < -10
    assert more[2] == 0, "that nothing is left is for the decoder to say, and the loss of such a plan stays finite"
