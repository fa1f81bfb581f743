"""Each worker's mean score in the query's cluster of training queries (Jitkrittum et al. 2025, arXiv 2502.08773)."""

from __future__ import annotations

import numpy as np

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.estimates import Features, Fold, nan_mean, worker_means

CLUSTERS = 20
_ROUNDS = 50


def estimate(fold: Fold) -> Values:
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
