"""In plans of any length, what stands far behind, and how much of it, changes nothing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from orchestai.planner.slots.heads import first_accepted

LOGITS = st.lists(st.floats(-20, 20), min_size=1, max_size=40).map(torch.tensor)


@given(LOGITS)
def test_a_token_is_first_if_it_is_accepted_and_none_before_it(logits: torch.Tensor) -> None:
    accepted = logits.double().sigmoid()
    wanted, left = [], torch.tensor(1.0, dtype=torch.double)
    for chance in accepted:
        wanted.append(left * chance)
        left = left * (1 - chance)
    torch.testing.assert_close(first_accepted(logits.double()).exp(), torch.stack(wanted), atol=1e-9, rtol=1e-6)


@given(LOGITS, LOGITS)
def test_what_comes_later_changes_nothing(logits: torch.Tensor, later: torch.Tensor) -> None:
    both = first_accepted(torch.cat([logits, later]))
    torch.testing.assert_close(both[: len(logits)], first_accepted(logits), atol=1e-5, rtol=1e-5)
