"""A logistic regression per worker on the queries' features."""

from __future__ import annotations

import torch
from torch import nn

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.baselines.masked_loss import cross_entropy, targets_of
from orchestai.evaluation.tables.estimates import Fold

_STEPS = 100


def estimate(fold: Fold) -> Values:
    """(queries, workers) probabilities; an L2 penalty of half the squared weights, as scikit-learn's default has it."""
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    targets, known = targets_of(fold.table.score[fold.train])
    model = nn.Linear(features.shape[1], targets.shape[1])
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        total = cross_entropy(model(inputs), targets, known) + model.weight.square().sum() / 2
        total.backward()
        return total.item()

    optimizer.step(loss)
    with torch.no_grad():
        return model(features).sigmoid().double().numpy()
