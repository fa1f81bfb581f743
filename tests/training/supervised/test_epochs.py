"""Which epoch of phase 1 is kept."""

from __future__ import annotations

from orchestai.training.supervised.epochs import Judgement


def test_right_plans_count_before_the_loss() -> None:
    """A planner that grows too sure of its few mistakes has a higher loss and plans that are right more often."""
    early = Judgement.of({"exact_decomposition": 0.50, "val_loss": 4.8})
    late = Judgement.of({"exact_decomposition": 0.52, "val_loss": 5.0})
    assert late.rank > early.rank
    assert Judgement(0.52, 4.9).rank > late.rank
