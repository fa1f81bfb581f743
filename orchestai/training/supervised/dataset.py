"""Training examples as tensors, and the order in which an epoch meets them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import TypeAlias, TypedDict

import torch
from torch.utils.data import Dataset, Sampler

from orchestai.config import PlannerConfig
from orchestai.data.training_file import IndexedPlan, TrainingExample, Vocabulary
from orchestai.planner.slots.losses import IGNORE, NO_WORKER, PlanTargets
from orchestai.workflow import Workflow

Span: TypeAlias = tuple[int, int]
_GROUP = 16
"""Batches among which instructions are sorted by length."""


class Item(TypedDict):
    """One instruction and the plan to imitate, without the dimension of rows; PyTorch's default collation adds it."""

    instruction: str
    targets: PlanTargets


class PlanDataset(Dataset[Item]):
    """Instructions with the plans to imitate, each padded to `max_subtasks` steps.

    Args:
        instructions: one per plan.
        plans: a step without a span has the place in the instruction where its words are found behind the step before
            it, or else first; one whose words are not in the instruction trains everything but its span.
        sources: where each instruction is from; one source where not said.
        max_fallbacks: further fallbacks are left out.
    """

    def __init__(
        self,
        instructions: Sequence[str],
        plans: Sequence[IndexedPlan],
        sources: Sequence[str] = (),
        *,
        max_subtasks: int,
        max_fallbacks: int,
    ) -> None:
        self.instructions = tuple(instructions)
        self.sources = tuple(sources) or ("",) * len(instructions)
        self._targets = [
            _targets(instruction, plan, max_subtasks, max_fallbacks)
            for instruction, plan in zip(self.instructions, plans, strict=True)
        ]

    @classmethod
    def from_examples(
        cls, examples: Sequence[TrainingExample], config: PlannerConfig, workers: Sequence[str]
    ) -> PlanDataset:
        """What `examples` vouch for, with steps in the order of their words unless these may overlap.

        A step without a span has the place where its words are found: behind the step before it, if they are there.

        Args:
            workers: names, in the order in which the planner numbers them.
        """
        vocabulary, plans = Vocabulary(config.task_types, tuple(workers)), []
        for example in examples:
            plan = located(example.imitated, example.instruction)
            places = {subtask.id: subtask.span for subtask in plan.subtasks if subtask.span is not None}
            if len(places) == len(plan) and not config.overlapping_spans:
                plan = Workflow(sorted(plan.subtasks, key=lambda subtask, places=places: places[subtask.id]))  # type: ignore[misc]
            plans.append(IndexedPlan.of(plan, vocabulary))
        return PlanDataset(
            [example.instruction for example in examples],
            plans,
            [example.suite for example in examples],
            max_subtasks=config.max_subtasks,
            max_fallbacks=config.max_fallbacks,
        )

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, index: int) -> Item:
        return Item(instruction=self.instructions[index], targets=self._targets[index])


class WorkflowDataset(PlanDataset):
    """The same from parallel lists, one entry per instruction, where nobody knows whom to ask next.

    Args:
        subtask_sequences: the words of each plan's subtasks.
        task_types: indices of types; None where nobody named one.
        dependencies: indices of parents.
        model_selections: indices of workers; None where nobody knows a good one.
    """

    def __init__(
        self,
        instructions: Sequence[str],
        subtask_sequences: Sequence[Sequence[str]],
        task_types: Sequence[Sequence[int | None]],
        dependencies: Sequence[Sequence[Sequence[int]]],
        model_selections: Sequence[Sequence[int | None]],
        *,
        max_subtasks: int = PlannerConfig().max_subtasks,
        max_fallbacks: int = PlannerConfig().max_fallbacks,
    ) -> None:
        columns = zip(instructions, subtask_sequences, task_types, dependencies, model_selections, strict=True)
        plans = [
            IndexedPlan.model_validate(
                {
                    "instructions": words,
                    "task_types": types,
                    "dependencies": parents,
                    "model_selections": workers,
                    "fallback": [None] * len(workers),
                }
            )
            for _, words, types, parents, workers in columns
        ]
        super().__init__(instructions, plans, max_subtasks=max_subtasks, max_fallbacks=max_fallbacks)


class LengthGroupedBatches(Sampler[list[int]]):
    """Batches of indices in an order that depends on seed and epoch alone.

    An epoch is shuffled, sorted by length within groups of a few batches, and its batches are shuffled: little padding,
    and other neighbors in every epoch.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._generator_seed = seed * 1_000_003 + epoch

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self._generator_seed)
        order = torch.randperm(len(self._lengths), generator=generator).tolist()
        group = self._batch_size * _GROUP
        batches = []
        for start in range(0, len(order), group):
            near = sorted(order[start : start + group], key=self._lengths.__getitem__)
            batches += [near[i : i + self._batch_size] for i in range(0, len(near), self._batch_size)]
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]


def located(workflow: Workflow, instruction: str) -> Workflow:
    """The workflow with a place for each step whose words are in the instruction."""
    words, spans = zip(*((step.instruction, step.span) for step in workflow.subtasks), strict=True)
    places = _places(words, spans, instruction)
    steps = zip(workflow.subtasks, places, strict=True)
    return Workflow([step.model_copy(update={"span": place}) for step, place in steps])


def _targets(instruction: str, plan: IndexedPlan, max_subtasks: int, max_fallbacks: int) -> PlanTargets:
    """One plan, padded."""
    n = len(plan.model_selections)
    if n > max_subtasks:
        raise ValueError(f"a plan of {n} subtasks, but max_subtasks is {max_subtasks}")
    targets = PlanTargets(
        lengths=torch.tensor(n),
        spans=torch.full((max_subtasks, 2), IGNORE),
        task_types=torch.full((max_subtasks,), IGNORE),
        model_selections=torch.full((max_subtasks,), IGNORE),
        fallback=torch.full((max_subtasks, max_fallbacks), IGNORE),
        dependencies=torch.zeros(max_subtasks, max_subtasks, dtype=torch.bool),
    )
    for i, span in enumerate(_places(plan.instructions, plan.spans, instruction)):
        if span is not None:
            targets["spans"][i] = torch.tensor(span)
        if (kind := plan.task_types[i]) is not None:
            targets["task_types"][i] = kind
        targets["dependencies"][list(plan.dependencies[i]), i] = True
        if (worker := plan.model_selections[i]) is not None:
            targets["model_selections"][i] = worker
        if worker is not None and (further := plan.fallback[i]) is not None:
            following = [*further, *[NO_WORKER] * max_fallbacks][:max_fallbacks]
            targets["fallback"][i] = torch.tensor(following, dtype=torch.long)
    return targets


def _places(words: Sequence[str], spans: Sequence[Span | None], instruction: str) -> list[Span | None]:
    """The spans, and where the words are of steps that have none."""
    places: list[Span | None] = []
    taken = {span for span in spans if span is not None}
    behind = 0
    for own, span in zip(words, spans, strict=True):
        if span is None and (span := _find(own, instruction, behind, taken)) is not None:
            taken.add(span)
        places.append(span)
        behind = behind if span is None else span[1]
    return places


def _find(words: str, instruction: str, behind: int, taken: Set[Span]) -> Span | None:
    """The first place that no other step has, from `behind` on if there is one; parts of other words only where the
    words stand nowhere by themselves."""
    if not words:
        return None
    literal = re.escape(words)
    standing = [found.span() for found in re.finditer(rf"(?<!\w){literal}(?!\w)", instruction)]
    free = set(standing or (found.span() for found in re.finditer(literal, instruction))) - taken
    return min(free, key=lambda span: (span[0] < behind, span), default=None)
