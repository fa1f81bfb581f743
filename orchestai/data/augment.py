"""Further training examples from logged ones: in other words, with branches in another order, with other operations.

A step gets other words only where some logged execution shows which worker does them well: the words are what the
worker reads, so a worker that was right for one wording may be wrong for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from orchestai.data.training_file import Targets, TrainingExample
from orchestai.tasks.examples import clean
from orchestai.tasks.suite import Variation
from orchestai.tasks.suites import step_catalogs

TRIES = 8
"""Times that each example is tried in vain before augmentation gives up."""


@dataclass(frozen=True)
class Proven:
    """A worker, with its fallbacks, whose answer to some words was part of an execution that was learned from."""

    worker: int
    fallback: tuple[int, ...]


def augment(
    examples: Sequence[TrainingExample],
    count: int,
    *,
    evidence: Iterable[TrainingExample],
    seed: int,
) -> list[TrainingExample]:
    """Up to `count` variations of the training examples; no two instructions are the same, nor equal to a given one.

    Examples whose steps a suite has a catalog of are varied, others and those of the validation split are not; no
    variation is a plan of a held-out split of the suite, or of a validation example. Each keeps its example's task,
    split, rewards and, for steps whose words stay, workers.

    Args:
        evidence: examples, better ones first, that show which worker does which words.
    """
    plans = [(example, example.targets.workflow()) for example in examples]
    known = [
        (example, plan, catalog, signature)
        for example, plan in plans
        for catalog in step_catalogs()
        if (signature := catalog.signature(plan))
    ]
    composed = [(example, plan, catalog) for example, plan, catalog, _ in known if example.split == "train"]
    held_out = {signature for example, _, _, signature in known if example.split != "train"}
    proven = _proven(evidence)
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    vain = 0
    while composed and len(added) < count and vain < TRIES * len(composed):
        example, plan, catalog = composed[(len(added) + vain) % len(composed)]
        variation = catalog.vary(plan, proven, held_out, rng)
        if variation is None or variation.instruction in seen:
            vain += 1
        else:
            seen.add(variation.instruction)
            added.append(_varied(example, variation, proven))
    return added


def _varied(example: TrainingExample, variation: Variation, proven: Mapping[str, Proven]) -> TrainingExample:
    before = example.targets
    words = tuple(subtask.instruction for subtask in variation.plan.subtasks)
    asked = [
        Proven(before.model_selections[old] or 0, before.fallback[old])
        if now == clean(before.instructions[old])
        else proven[now]
        for old, now in zip(variation.origin, words, strict=True)
    ]
    targets = Targets(
        model_selections=tuple(choice.worker for choice in asked),
        task_types=tuple(before.task_types[old] for old in variation.origin),
        dependencies=tuple(map(tuple, variation.plan.dependencies())),
        spans=tuple(subtask.span for subtask in variation.plan.subtasks),
        fallback=tuple(choice.fallback for choice in asked),
        instructions=words,
    )
    return example.model_copy(update={"instruction": variation.instruction, "targets": targets, "augmented": True})


def _proven(evidence: Iterable[TrainingExample]) -> dict[str, Proven]:
    found: dict[str, Proven] = {}
    for targets in (example.targets for example in evidence):
        for words, worker, fallback in zip(
            targets.instructions, targets.model_selections, targets.fallback, strict=True
        ):
            if worker is not None:
                found.setdefault(clean(words), Proven(worker, fallback))
    return found
