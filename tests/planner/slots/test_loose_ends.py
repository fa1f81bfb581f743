"""A step whose result nobody takes is joined where that costs little, and only then."""

from __future__ import annotations

import math

import pytest
import torch

from orchestai.planner.slots.dag import is_acyclic, likeliest_edges
from orchestai.planner.slots.loose_ends import join_loose_ends, loose_ends, one_result_log_odds
from orchestai.workflow import Subtask, Workflow

SURE = 9.0


def logits(*likely: tuple[int, int, float]) -> torch.Tensor:
    found = torch.full((1, 4, 4), -SURE)
    for parent, child, value in likely:
        found[0, parent, child] = value
    return found


def joined(scores: torch.Tensor, log_odds: float, parents_of_the_last: int) -> list[list[int]]:
    steps, counts = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4, 4)
    counts[0, 3, parents_of_the_last] = SURE
    edges = likeliest_edges(scores, counts, steps)
    return join_loose_ends(edges, scores, counts, steps, log_odds)[0].nonzero().tolist()


def test_an_end_takes_the_place_of_a_result_that_is_taken_twice():
    """Step 4 was given step 1, which step 2 takes, too, and step 3 was for nobody."""
    scores = logits((0, 1, SURE), (1, 3, SURE), (0, 3, 1.0), (2, 3, -1.0))
    assert joined(scores, 0.0, 2) == [[0, 1], [0, 3], [1, 3]]
    assert joined(scores, 2.5, 2) == [[0, 1], [1, 3], [2, 3]]


def test_what_is_sure_stays():
    """Steps 2 and 3 are for nobody, and no other step is said to take them."""
    assert joined(logits((0, 1, SURE), (0, 2, SURE), (0, 3, SURE), (1, 3, -5.0)), 5.0, 1) == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("seed", range(20))
def test_no_cycle_is_closed_and_at_any_price_one_end_is_left(seed):
    generator = torch.Generator().manual_seed(seed)
    n, lengths = 6, torch.tensor([6, 4, 1])
    scores = 3 * torch.randn(3, n, n, generator=generator).triu(1) - 20 * torch.ones(n, n).tril()
    counts = torch.randn(3, n, 8, generator=generator)
    steps = torch.arange(n) < lengths[:, None]
    edges = likeliest_edges(scores, counts, steps)
    found = join_loose_ends(edges, scores, counts, steps, math.inf)
    assert loose_ends(found, steps).tolist() == [0, 0, 0]
    for row, length in zip(found, lengths.tolist(), strict=True):
        assert is_acyclic(row)
        assert not row[length:].any()
        assert not row[:, length:].any()


def test_the_odds_are_those_of_the_plans():
    alone, pair = Subtask(id="1", instruction="a", worker="w"), Subtask(id="2", instruction="b", worker="w")
    assert one_result_log_odds([]) == 0
    assert one_result_log_odds([Workflow([alone])] * 7 + [Workflow([alone, pair])]) == pytest.approx(math.log(4))
