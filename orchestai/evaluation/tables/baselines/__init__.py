"""Estimators of outcomes to beat, by name."""

from __future__ import annotations

from orchestai.evaluation.tables.baselines import (
    cluster_means,
    known_outcomes,
    logistic_regression,
    matrix_factorization,
    multilayer_perceptron,
    nearest_neighbors,
    task_prior,
)
from orchestai.evaluation.tables.estimates import Estimator, with_task_costs

TASK_PRIOR = "task_prior"
BASELINES: dict[str, Estimator] = {
    TASK_PRIOR: with_task_costs(task_prior.estimate),
    "knn": with_task_costs(nearest_neighbors.estimate),
    "logistic_regression": with_task_costs(logistic_regression.estimate),
    "mlp": with_task_costs(multilayer_perceptron.estimate),
    "matrix_factorization": with_task_costs(matrix_factorization.estimate),
    "cluster": with_task_costs(cluster_means.estimate),
    "oracle": known_outcomes.estimate,
}
