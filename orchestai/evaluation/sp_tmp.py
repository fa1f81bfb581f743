"""Which plans of a file are scored: those for tasks that neither the planner nor a floor has learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestai.data.training_file import TrainingExample
from orchestai.evaluation.held_out import HeldOut, hold_out
from orchestai.tasks.splits import SeenTasks


@dataclass(frozen=True)
class NamedPlans:
    """A training file as it was read."""

    name: str
    examples: Sequence[TrainingExample]

    def part(self, split: str) -> list[TrainingExample]:
        return [example for example in self.examples if example.split == split]


@dataclass(frozen=True)
class ScoredPlans:
    """The choice.

    Attributes:
        held_out: the plans that are scored, and what the checkpoint and the training file have of the tasks.
        learned: plans that the nearest graph may be taken from.
        training: the name of the training file; None without one.
        remark: what a reader of the figures must know, in a line; empty where there is nothing to know.
    """

    held_out: HeldOut[TrainingExample]
    learned: Sequence[TrainingExample]
    training: str | None
    remark: str

    def to_dict(self) -> dict[str, Any]:
        """For files of figures."""
        found = self.held_out.to_dict(lambda example: example.task_id)
        in_training = found["checkpoints"].pop(self.training, None)
        return found | {"training_data": in_training, "remark": self.remark}


def choose_plans(
    plans: NamedPlans, seen: Mapping[str, SeenTasks], training: NamedPlans | None, *, include_learned: bool = False
) -> ScoredPlans:
    """The plans of a file that may be scored, by the words of what is asked.

    Where the file keeps plans for tests, and the checkpoint or the training file has any of its tasks, these are of its
    test part alone. Where neither has any, or none is kept for tests, these are all: it is a file of others.

    Args:
        seen: what the checkpoint has seen, by its name; empty without one.
        training: what was learned from, so that its plans are no measure and may be copied by the nearest graph;
            without it that floor takes what the file itself does not keep for tests.

    Raises:
        UserError: none is left.
    """
    tests = plans.part("test")
    compared = dict(seen)
    if training is not None:
        compared[training.name] = SeenTasks.of(
            *([example.asked for example in training.part(split)] for split in ("train", "validation"))
        )
    unknown = [name for name, its in seen.items() if not its.complete]
    is_others = bool(compared) and not any(e.asked in its for e in plans.examples for its in compared.values())
    whole = not tests or (is_others and not (unknown and training is None))
    held_out = hold_out(
        plans.examples if whole else tests,
        compared,
        lambda example: example.asked,
        what=plans.name,
        include_learned=include_learned,
    )
    learned = (training or plans).part("train") if training or not whole else []
    remarks = [] if tests else ["none is kept for tests"]
    known = [name for name in compared if name not in unknown]
    if whole and is_others and known and len(tests) < len(plans.examples):
        remarks.append(f"{' and '.join(known)} {'has' if len(known) == 1 else 'have'} none of their tasks")
    remarks += _overlap(held_out, training)
    remarks += [f"{name} does not say all that it learned from, {_remedy(training)}" for name in unknown]
    return ScoredPlans(
        held_out,
        learned,
        training=None if training is None else training.name,
        remark="; ".join((_count(held_out), *remarks)) if remarks else "",
    )


def _count(held_out: HeldOut[TrainingExample]) -> str:
    kept, total = len(held_out.kept), held_out.total
    count = f"all {total} plans scored" if kept == total else f"{kept} of {total} plans scored"
    if held_out.included:
        count += f", {held_out.included} of them not held out, so figures are too high (tasks.include_learned)"
    return f"{held_out.what}: {count}"


def _overlap(held_out: HeldOut[TrainingExample], training: NamedPlans | None) -> list[str]:
    """What the checkpoint and the training file have of the tasks, where they have any."""
    found = []
    for name, its in held_out.exposures.items():
        if training is not None and name == training.name and (its.learned or its.selected_on):
            found.append(f"{name} has {its.learned + its.selected_on} of the {held_out.total} tasks")
        elif its.learned or its.selected_on:
            found.append(f"{name} learned from {its.learned} and was selected on {its.selected_on} of the tasks")
    return found


def _remedy(training: NamedPlans | None) -> str:
    if training is None:
        return "so figures are too high if these tasks are among it (name its training file by --training_data)"
    return f"so the tasks of {training.name} count for it"
