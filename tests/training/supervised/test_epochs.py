"""Which epoch of phase 1 is the best, and which is kept."""

from __future__ import annotations

import torch

from orchestai.config.load import Phase1Config
from orchestai.training.supervised.run import Epochs, kept_epoch


class Scripted(Epochs):
    """Learns nothing; each epoch has the next of given shares of right plans and losses."""

    plans_judged = 100

    def __init__(self, *validated: tuple[float, float]) -> None:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        super().__init__(optimizer, Phase1Config(), batches_per_epoch=1)
        self.validated = iter(validated)

    def batches(self, epoch: int) -> list[list[int]]:
        return [[0]]

    def step(self, rows: list[int]) -> dict[str, float]:
        return {"total_loss": 1.0}

    def validate(self) -> dict[str, float]:
        return dict(zip(("exact_decomposition", "val_loss"), next(self.validated), strict=True))


def test_right_plans_count_before_the_loss() -> None:
    """A planner that grows too sure of its few mistakes has a higher loss and plans that are right more often."""
    epochs = Scripted((0.50, 4.8), (0.52, 5.0), (0.52, 4.9), (0.50, 4.0))
    stale = []
    for _ in range(4):
        epochs.run_epoch()
        stale.append(epochs.stale_epochs)
    assert stale == [0, 0, 0, 1]
    assert epochs.best == (0.52, -4.9)


def test_an_earlier_epoch_is_kept_only_where_it_is_better_by_more_than_chance() -> None:
    """Two of 464 plans made the third of four epochs the best, whose learning rate had not come down yet."""
    history = [{"epoch": n, "exact_decomposition": share} for n, share in enumerate((0.40, 0.50, 0.522, 0.517), 1)]
    assert kept_epoch(history, held_out=464)["epoch"] == 4
    assert kept_epoch(history, held_out=100_000)["epoch"] == 3
    assert kept_epoch([*history, {"epoch": 5, "exact_decomposition": 0.45}], held_out=464)["epoch"] == 4
    assert kept_epoch(history[:1], held_out=1)["epoch"] == 1
