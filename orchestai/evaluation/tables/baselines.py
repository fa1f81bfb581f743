"""Estimators of outcomes to beat, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, softplus

from orchestai.data.outcome_table import Values, nan_mean
from orchestai.evaluation.tables.estimates import (
    Estimator,
    Fold,
    TableEstimates,
    means_by_task,
    worker_means,
)


def nearest_neighbors(fold: Fold) -> Values:
    """(queries, workers) means over the 100 training queries of the highest cosine similarity, or all if fewer.

    A training query is its own neighbor: its estimate is not for testing. A worker that none of the neighbors measured
    gets its mean over all.
    """
    learned = fold.table.score[fold.train]
    count = min(100, len(fold.train))
    overall = worker_means(learned)
    means = np.empty_like(fold.table.score)
    for row, similarity in enumerate(fold.features @ fold.features[fold.train].T):
        nearest = np.argpartition(-similarity, count - 1)[:count]
        means[row] = nan_mean(learned[nearest])
    return np.where(np.isnan(means), overall, means)


def targets_of(score: Values) -> tuple[Tensor, Tensor]:
    """Scores with 0 where they are missing, and a mask that is 0 there and 1 elsewhere; float32."""
    values = torch.from_numpy(score).float()
    known = ~values.isnan()
    return values.nan_to_num(0.0), known.float()


def cross_entropy(logits: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """Sum over the known cells; all three are (queries, workers)."""
    return (binary_cross_entropy_with_logits(logits, targets, reduction="none") * known).sum()


def _trained(
    fold: Fold,
    build: Callable[[int, int], nn.Module],
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    epochs: int,
    loss: Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """(queries, workers) what a model of (features, workers) says after so many epochs with the seed of the fold."""
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    targets, known = targets_of(fold.table.score[fold.train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold.seed)
        model = build(features.shape[1], targets.shape[1])
        steps = optimizer(model.parameters())
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs)).split(64):
                error = loss(model, inputs[rows], targets[rows], known[rows])
                steps.zero_grad()
                error.backward()
                steps.step()
    with torch.no_grad():
        found: Tensor = model(features)
    return found


def multilayer_perceptron(fold: Fold) -> Values:
    """(queries, workers) probabilities of a model with one hidden layer of 100."""
    return np.asarray(
        _trained(
            fold,
            lambda width, workers: nn.Sequential(nn.Linear(width, 100), nn.ReLU(), nn.Linear(100, workers)),
            lambda weights: torch.optim.AdamW(weights, lr=1e-3, weight_decay=1e-2),
            10,
            lambda model, inputs, scores, known: cross_entropy(model(inputs), scores, known) / known.sum().clamp(min=1),
        )
        .sigmoid()
        .double()
    )


def logistic_regression(fold: Fold) -> Values:
    """(queries, workers) probabilities; an L2 penalty of half the squared weights, as scikit-learn's default has it."""
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    targets, known = targets_of(fold.table.score[fold.train])
    model = nn.Linear(features.shape[1], targets.shape[1])
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        total = cross_entropy(model(inputs), targets, known) + model.weight.square().sum() / 2
        total.backward()
        return total.item()

    optimizer.step(loss)
    with torch.no_grad():
        return model(features).sigmoid().double().numpy()


_WIDTH, _NOISE = 128, 0.1
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


def matrix_factorization(fold: Fold) -> Values:
    """(queries, workers) the mean probability of being better than another worker.

    Learned from all pairs of workers whose scores on a query differ, as the Bradley-Terry model has it.
    """

    def loss(model: nn.Module, inputs: Tensor, scores: Tensor, known: Tensor) -> Tensor:
        strength = model(inputs + _NOISE * torch.randn_like(inputs))
        better = (_differences(scores) > 0) * known[:, :, None] * known[:, None, :]
        return (softplus(-_differences(strength)) * better).sum() / better.sum().clamp(min=1)

    strength = _trained(fold, _Factors, lambda weights: torch.optim.Adam(weights, lr=1e-3, weight_decay=1e-5), 30, loss)
    wins = _differences(strength).sigmoid()
    return ((wins.sum(dim=2) - 0.5) / max(1, wins.shape[2] - 1)).double().numpy()


def _differences(values: Tensor) -> Tensor:
    """(queries, workers, workers) of each worker minus each other."""
    return values[:, :, None] - values[:, None, :]


def _with_task_costs(score: Callable[[Fold], Values]) -> Estimator:
    """The estimator of these scores, and of each worker's mean cost on training queries of the same type."""
    return lambda fold: TableEstimates(score(fold), means_by_task(fold, fold.table.cost_usd))


TASK_PRIOR = "task_prior"
BASELINES: dict[str, Estimator] = {
    TASK_PRIOR: _with_task_costs(lambda fold: means_by_task(fold, fold.table.score)),
    "knn": _with_task_costs(nearest_neighbors),
    "logistic_regression": _with_task_costs(logistic_regression),
    "mlp": _with_task_costs(multilayer_perceptron),
    "matrix_factorization": _with_task_costs(matrix_factorization),
    "oracle": lambda fold: TableEstimates(fold.table.score, fold.table.cost_usd),
}
"""The oracle knows what each worker scored and cost, test queries included."""
