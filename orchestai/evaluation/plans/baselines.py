"""What plans are worth that need no learning; the figures of a planner mean nothing below these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.data.training_file import TrainingExample
from orchestai.evaluation.plans.metrics import EmbedSentences
from orchestai.workflow import Workflow


def listed_chain(example: TrainingExample) -> Workflow:
    """The right steps, each after the one listed before it."""
    return _joined(example, [[i - 1] if i else [] for i in range(len(example.workflow))])


def all_pairs(example: TrainingExample) -> Workflow:
    """The right steps, each after all that are listed before it."""
    return _joined(example, [range(i) for i in range(len(example.workflow))])


def no_edges(example: TrainingExample) -> Workflow:
    """The right steps, all at once."""
    return _joined(example, [[] for _ in range(len(example.workflow))])


def nearest(
    examples: Sequence[TrainingExample], learned: Sequence[TrainingExample], embed: EmbedSentences
) -> list[Workflow | None]:
    """For each example the plan of the learned one whose task means the most similar.

    Where steps are given, it is the nearest with as many steps, and its edges join the steps by their place. None where
    there is none.
    """
    if not learned:
        return [None] * len(examples)
    similarity = embed([e.asked for e in examples]) @ embed([e.asked for e in learned]).T
    sizes = np.array([len(e.workflow) for e in learned])
    found: list[Workflow | None] = []
    for example, row in zip(examples, similarity, strict=True):
        fits = sizes == len(example.workflow) if example.given else np.ones(len(learned), bool)
        if not fits.any():
            found.append(None)
            continue
        near = learned[int(np.where(fits, row, -2.0).argmax())].workflow
        found.append(_joined(example, near.dependencies()) if example.given else near)
    return found


def _joined(example: TrainingExample, parents: Sequence[Sequence[int]]) -> Workflow:
    """The right steps with other edges.

    Args:
        parents: places of each step's.
    """
    steps = example.workflow.subtasks
    return Workflow(
        [
            step.model_copy(update={"depends_on": tuple(steps[place].id for place in places)})
            for step, places in zip(steps, parents, strict=True)
        ]
    )
