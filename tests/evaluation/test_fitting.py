"""What is served of a pool is what the verdicts bear out, and the best single worker where they bear out nothing."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.estimate.answers import SeenAnswers, Verdicts
from orchestai.evaluation import fitting


def asked(
    right: np.ndarray, cost: tuple[float, ...], rng: np.random.Generator
) -> tuple[SeenAnswers, Verdicts, list[str]]:
    """Answers to questions: what is right is one answer, what is wrong one of many."""
    said = np.where(right, 0, rng.integers(1, 1000, right.shape))
    shape, types = right.shape, np.zeros(len(right), dtype=np.intp)
    seen = SeenAnswers(said, np.zeros(shape, dtype=np.intp), types, ("text",), ("whole",))
    return seen, Verdicts(right.astype(float), np.ones(shape) * cost), [f"w{i}" for i in range(shape[1])]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_several_cheap_workers_are_asked_where_they_beat_the_dear_one(rng):
    right = rng.random((400, 4)) < (0.75, 0.75, 0.75, 0.85)
    seen, verdicts, names = asked(right, (1.0, 1.0, 1.0, 10.0), rng)
    known, others = np.arange(60), np.arange(60, 400)
    chosen = fitting.pick(fitting.candidates(seen.take(known), verdicts.take(known)))
    success, usd = fitting.serve(chosen, seen.take(others), verdicts.take(others))
    assert chosen.kind == fitting.JUDGED
    assert success.mean() > right[others, 3].mean() + 0.02
    assert usd.mean() < 10
    evidence = fitting.cross_validate(seen.take(known), verdicts.take(known), None, known)
    lines = fitting.verdict(names, seen.take(known), verdicts.take(known), chosen, evidence)
    assert lines[0].startswith("Served: w")
    assert "better than the best single worker" in lines[0]
    assert fitting.cross_validate(seen.take(known[:5]), verdicts.take(known[:5]), None, known[:5]) is None


def test_the_single_worker_stays_where_nothing_is_better(rng):
    same = np.repeat(rng.random((60, 1)) < 0.6, 3, axis=1)
    seen, verdicts, names = asked(same, (1.0, 2.0, 3.0), rng)
    chosen = fitting.pick(fitting.candidates(seen, verdicts))
    assert (chosen.kind, chosen.worker) == (fitting.SINGLE, 0)
    few = fitting.pick(fitting.candidates(seen.take(np.arange(3)), verdicts.take(np.arange(3))))
    assert few.kind == fitting.SINGLE
    lines = fitting.verdict(names, seen, verdicts, chosen, None)
    assert lines[0].startswith("Served: w0 alone")


def test_specialists_are_told_by_the_nearest_tasks(rng):
    kind = np.arange(80) % 2
    features = np.eye(2, 384, dtype=np.float32)[kind] + 0.01 * rng.normal(size=(80, 384)).astype(np.float32)
    right = np.stack([(kind == 0) | (rng.random(80) < 0.2), (kind == 1) | (rng.random(80) < 0.2)], axis=1)
    seen, verdicts, _ = asked(right, (1.0, 1.0), rng)
    known, others = np.arange(40), np.arange(40, 80)
    chosen = fitting.pick(fitting.candidates(seen.take(known), verdicts.take(known), features[known]))
    assert chosen.kind == fitting.NEAREST
    learned = features[known], verdicts.take(known)
    success, usd = fitting.serve(chosen, seen.take(others), verdicts.take(others), learned, features[others])
    assert success.mean() > 0.95
    assert usd.mean() == 1
