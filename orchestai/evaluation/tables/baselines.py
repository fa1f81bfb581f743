"""Estimators of outcomes to beat, by name."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, softplus

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.estimates import (
    Estimator,
    Features,
    Fold,
    TableEstimates,
    means_by_task,
    nan_mean,
    with_task_costs,
    worker_means,
)

CLUSTERS = 20
_ROUNDS = 50


def cluster_means(fold: Fold) -> Values:
    """(queries, workers) means over the training queries of the nearest of 20 centers."""
    centers = k_means(fold.features[fold.train], CLUSTERS, seed=fold.seed)
    nearest = (fold.features @ centers.T).argmax(axis=1)
    learned = fold.table.score[fold.train]
    overall = worker_means(learned)
    means = np.empty_like(fold.table.score)
    for cluster in range(len(centers)):
        own = nan_mean(learned[nearest[fold.train] == cluster])
        means[nearest == cluster] = np.where(np.isnan(own), overall, own)
    return means


def k_means(points: Features, count: int, *, seed: int) -> Features:
    """(clusters, width) unit centers of spherical k-means, seeded as k-means++; empty clusters are dropped.

    Args:
        points: (points, width) unit vectors.
    """
    rng = np.random.default_rng(seed)
    centers = points[[rng.integers(len(points))]]
    while len(centers) < min(count, len(points)):
        distance = np.clip(1 - (points @ centers.T).max(axis=1), 0, None).astype(np.float64)
        if distance.sum() == 0:
            break
        centers = np.vstack([centers, points[rng.choice(len(points), p=distance / distance.sum())]])
    for _ in range(_ROUNDS):
        nearest = (points @ centers.T).argmax(axis=1)
        sums = np.stack([points[nearest == cluster].sum(axis=0) for cluster in np.unique(nearest)])
        moved = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        if moved.shape == centers.shape and np.allclose(moved, centers, atol=1e-6):
            break
        centers = moved
    return centers


NEIGHBORS = 100


def nearest_neighbors(fold: Fold) -> Values:
    """(queries, workers) means over the 100 training queries of the highest cosine similarity, or all if fewer.

    A training query is its own neighbor: its estimate is not for testing. A worker that none of the neighbors measured
    gets its mean over all.
    """
    learned = fold.table.score[fold.train]
    count = min(NEIGHBORS, len(fold.train))
    overall = worker_means(learned)
    means = np.empty_like(fold.table.score)
    for row, similarity in enumerate(fold.features @ fold.features[fold.train].T):
        nearest = np.argpartition(-similarity, count - 1)[:count]
        means[row] = nan_mean(learned[nearest])
    return np.where(np.isnan(means), overall, means)


def known_outcomes(fold: Fold) -> TableEstimates:
    """What each worker scored and cost, test queries included."""
    return TableEstimates(fold.table.score, fold.table.cost_usd)


def task_prior(fold: Fold) -> Values:
    """(queries, workers) means by task type; over all queries where the table has no types."""
    return means_by_task(fold, fold.table.score)


def targets_of(score: Values) -> tuple[Tensor, Tensor]:
    """Scores with 0 where they are missing, and a mask that is 0 there and 1 elsewhere; float32."""
    values = torch.from_numpy(score).float()
    known = ~values.isnan()
    return values.nan_to_num(0.0), known.float()


def cross_entropy(logits: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """Sum over the known cells; all three are (queries, workers)."""
    return (binary_cross_entropy_with_logits(logits, targets, reduction="none") * known).sum()


_HIDDEN = 100
_MLP_EPOCHS = 10
_BATCH = 64
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1e-2


def multilayer_perceptron(fold: Fold) -> Values:
    """(queries, workers) probabilities, by AdamW with the seed of the fold."""
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    targets, known = targets_of(fold.table.score[fold.train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold.seed)
        model = nn.Sequential(nn.Linear(features.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, targets.shape[1]))
        optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        for _ in range(_MLP_EPOCHS):
            for rows in torch.randperm(len(inputs)).split(_BATCH):
                loss = cross_entropy(model(inputs[rows]), targets[rows], known[rows]) / known[rows].sum().clamp(min=1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    with torch.no_grad():
        return model(features).sigmoid().double().numpy()


_STEPS = 100


def logistic_regression(fold: Fold) -> Values:
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


_WIDTH = 128
_EPOCHS = 30
_FACTOR_DECAY = 1e-5
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


def matrix_factorization(fold: Fold) -> Values:
    """(queries, workers) the mean probability of being better than another worker.

    Learned from all pairs of workers whose scores on a query differ, as the Bradley-Terry model has it.
    """
    features = torch.from_numpy(fold.features).float()
    inputs = features[fold.train]
    scores, known = targets_of(fold.table.score[fold.train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold.seed)
        model = _Factors(features.shape[1], scores.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE, weight_decay=_FACTOR_DECAY)
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


TASK_PRIOR = "task_prior"
BASELINES: dict[str, Estimator] = {
    TASK_PRIOR: with_task_costs(task_prior),
    "knn": with_task_costs(nearest_neighbors),
    "logistic_regression": with_task_costs(logistic_regression),
    "mlp": with_task_costs(multilayer_perceptron),
    "matrix_factorization": with_task_costs(matrix_factorization),
    "cluster": with_task_costs(cluster_means),
    "oracle": known_outcomes,
}
