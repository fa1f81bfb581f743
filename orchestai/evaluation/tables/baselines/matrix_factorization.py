"""RouteLLM's matrix factorization (Ong et al. 2024, arXiv 2406.18665, section 4.2), for any number of workers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.baselines.masked_loss import targets_of
from orchestai.evaluation.tables.estimates import Fold

_WIDTH = 128
_EPOCHS = 30
_BATCH = 64
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1e-5
_NOISE = 0.1
"""Added to the queries' features, as RouteLLM does; its smaller steps are more, of single pairs."""


class _Factors(nn.Module):
    def __init__(self, width: int, workers: int) -> None:
        super().__init__()
        self.workers = nn.Embedding(workers, _WIDTH)
        self.project = nn.Linear(width, _WIDTH, bias=False)
        self.classify = nn.Linear(_WIDTH, 1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """(queries, workers) strengths, whose differences are the log-odds that one worker is better than another."""
        workers = normalize(self.workers.weight, dim=1) * self.classify.weight
        return self.project(features) @ workers.T


def estimate(fold: Fold) -> Values:
    """(queries, workers) the mean probability of being better than another worker.

    Learned from all pairs of workers whose scores on a query differ, as the Bradley-Terry model has it.
    """
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    scores, known = targets_of(fold.table.score[fold.train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold.seed)
        model = _Factors(features.shape[1], scores.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        for _ in range(_EPOCHS):
            for rows in torch.randperm(len(inputs)).split(_BATCH):
                strength = model(inputs[rows] + _NOISE * torch.randn_like(inputs[rows]))
                better = (_differences(scores[rows]) > 0) * known[rows, :, None] * known[rows, None, :]
                loss = (softplus(-_differences(strength)) * better).sum() / better.sum().clamp(min=1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    with torch.no_grad():
        wins = _differences(model(features)).sigmoid()
        return ((wins.sum(dim=2) - 0.5) / max(1, wins.shape[2] - 1)).double().numpy()


def _differences(values: Tensor) -> Tensor:
    """(queries, workers, workers) of each worker minus each other."""
    return values[:, :, None] - values[:, None, :]
