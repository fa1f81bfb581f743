"""One hidden layer for all workers on the queries' features."""

from __future__ import annotations

import torch
from torch import nn

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.baselines.masked_loss import cross_entropy, targets_of
from orchestai.evaluation.tables.estimates import Fold

_HIDDEN = 100
_EPOCHS = 10
_BATCH = 64
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1e-2


def estimate(fold: Fold) -> Values:
    """(queries, workers) probabilities, by AdamW with the seed of the fold."""
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    targets, known = targets_of(fold.table.score[fold.train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold.seed)
        model = nn.Sequential(nn.Linear(features.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, targets.shape[1]))
        optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        for _ in range(_EPOCHS):
            for rows in torch.randperm(len(inputs)).split(_BATCH):
                loss = cross_entropy(model(inputs[rows]), targets[rows], known[rows]) / known[rows].sum().clamp(min=1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    with torch.no_grad():
        return model(features).sigmoid().double().numpy()
