"""Further training examples from logged ones: in other words, with branches in another order, with other operations.

A step gets other words only where some logged execution shows which worker does them well: the words are what the
worker reads, so a worker that was right for one wording may be wrong for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from orchestai.data.training_file import TrainingExample
from orchestai.tasks.suite import Variation
from orchestai.tasks.suites import step_catalogs
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask

TRIES = 8
"""Times that each example is tried in vain before augmentation gives up."""


def augment(
    examples: Sequence[TrainingExample],
    count: int,
    *,
    evidence: Iterable[TrainingExample] | None,
    seed: int,
) -> list[TrainingExample]:
    """Up to `count` variations of the training examples; no two instructions are the same, nor equal to a given one.

    Examples whose steps a suite has a catalog of are varied, others and those of the validation split are not; no
    variation is a plan of a held-out split of the suite, or of a validation example. Each keeps its example's task,
    split, rewards and, for steps whose words stay, workers.

    Args:
        evidence: examples, better ones first, that show which worker does which words; None where plans have no
            workers, so that all words of theirs may be exchanged.
    """
    known = [
        (example, catalog, signature)
        for example in examples
        for catalog in step_catalogs()
        if (signature := catalog.signature(example.workflow))
    ]
    composed = [(example, catalog) for example, catalog, _ in known if example.split == "train"]
    held_out = {signature for example, _, signature in known if example.split != "train"}
    if evidence is None:
        learned = (step for example, _ in composed for step in example.workflow.subtasks)
        proven = {clean(step.instruction): step for step in learned}
    else:
        proven = _proven(evidence)
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    vain = 0
    while composed and len(added) < count and vain < TRIES * len(composed):
        example, catalog = composed[(len(added) + vain) % len(composed)]
        variation = catalog.vary(example.workflow, proven, held_out, rng)
        if variation is None or variation.instruction in seen:
            vain += 1
        else:
            seen.add(variation.instruction)
            added.append(_varied(example, variation, proven))
    return added


def _varied(example: TrainingExample, variation: Variation, proven: Mapping[str, Subtask]) -> TrainingExample:
    """With the types of the steps that the new ones were made from, and workers that are known to do the words."""
    changes: dict[str, dict[str, Any]] = {}
    for origin, subtask in zip(variation.origin, variation.plan.subtasks, strict=True):
        before = example.workflow.subtasks[origin]
        kept = subtask.instruction == clean(before.instruction)
        worked = before if kept else proven[subtask.instruction]
        changes[subtask.id] = {"task_type": before.task_type, "worker": worked.worker, "fallback": worked.fallback}
    varied = {"instruction": variation.instruction, "workflow": variation.plan.replace(changes), "augmented": True}
    return example.model_copy(update=varied)


def _proven(evidence: Iterable[TrainingExample]) -> dict[str, Subtask]:
    """By their words, subtasks whose worker's answer was part of an execution that was learned from."""
    found: dict[str, Subtask] = {}
    for example in evidence:
        for subtask in example.workflow.subtasks:
            if subtask.worker:
                found.setdefault(clean(subtask.instruction), subtask)
    return found
