"""What plans are worth that need no learning; the figures of a planner mean nothing below these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.data.training_file import TrainingExample
from orchestai.evaluation.plans.metrics import EmbedSentences, PlannedGraph


def listed_chain(example: TrainingExample) -> PlannedGraph:
    """The right steps, each after the one listed before it."""
    words = _words(example)
    return PlannedGraph(words, frozenset((i, i + 1) for i in range(len(words) - 1)))


def all_pairs(example: TrainingExample) -> PlannedGraph:
    """The right steps, each after all that are listed before it."""
    words = _words(example)
    return PlannedGraph(words, frozenset((i, j) for j in range(len(words)) for i in range(j)))


def no_edges(example: TrainingExample) -> PlannedGraph:
    """The right steps, all at once."""
    return PlannedGraph(_words(example), frozenset())


def nearest(
    examples: Sequence[TrainingExample], learned: Sequence[TrainingExample], embed: EmbedSentences
) -> list[PlannedGraph | None]:
    """For each example the plan of the learned one whose task means the most similar.

    Where steps are given, it is the nearest with as many steps, and its edges join the steps by their place. None where
    there is none.
    """
    if not learned:
        return [None] * len(examples)
    similarity = embed([e.asked for e in examples]) @ embed([e.asked for e in learned]).T
    sizes = np.array([len(e.targets) for e in learned])
    found: list[PlannedGraph | None] = []
    for example, row in zip(examples, similarity, strict=True):
        fits = sizes == len(example.targets) if example.given else np.ones(len(learned), bool)
        if not fits.any():
            found.append(None)
            continue
        graph = PlannedGraph.of_workflow(learned[int(np.where(fits, row, -2.0).argmax())].targets.workflow())
        words = _words(example) if example.given else graph.words
        found.append(PlannedGraph(words, graph.edges))
    return found


def _words(example: TrainingExample) -> tuple[str, ...]:
    return PlannedGraph.of_workflow(example.targets.workflow()).words
