"""Training examples as tensors, and the order in which an epoch meets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

import torch
from torch.utils.data import Dataset, Sampler

from orchestai.config import PlannerConfig
from orchestai.data.training_file import TrainingExample
from orchestai.planner.slots.targets import IGNORE, NO_WORKER, PlanTargets

_GROUP = 16
"""Batches among which instructions are sorted by length."""


class Item(TypedDict):
    """One instruction and the plan to imitate, without the dimension of rows; PyTorch's default collation adds it."""

    instruction: str
    targets: PlanTargets


class WorkflowDataset(Dataset[Item]):
    """Instructions with the plans to imitate, each padded to `max_subtasks` steps.

    Args:
        instructions: one per plan.
        subtask_sequences: the words of each plan's subtasks.
        task_types: indices of types; None where nobody named one.
        dependencies: indices of parents.
        model_selections: indices of workers; None where nobody knows a good one, and then `fallback` is not read.
        spans: [start, end) character offsets of the subtasks' words in the instruction. Where they are not given, the
            words are looked for; a subtask whose words are not in the instruction trains everything but its span.
        fallback: indices of the workers to ask next; those beyond `max_fallbacks` are left out.
        given: whether the instruction lists the steps, so that finding them is not trained; False where not said.
        sources: where each instruction is from; one source where not said.
    """

    def __init__(
        self,
        instructions: Sequence[str],
        subtask_sequences: Sequence[Sequence[str]],
        task_types: Sequence[Sequence[int | None]],
        dependencies: Sequence[Sequence[Sequence[int]]],
        model_selections: Sequence[Sequence[int | None]],
        spans: Sequence[Sequence[tuple[int, int] | None]] | None = None,
        fallback: Sequence[Sequence[Sequence[int]]] | None = None,
        given: Sequence[bool] | None = None,
        sources: Sequence[str] | None = None,
        *,
        max_subtasks: int = PlannerConfig().max_subtasks,
        max_fallbacks: int = PlannerConfig().max_fallbacks,
    ) -> None:
        columns = (subtask_sequences, task_types, dependencies, model_selections, spans, fallback, given, sources)
        if any(column is not None and len(column) != len(instructions) for column in columns):
            raise ValueError("every argument needs one entry per instruction")
        self.instructions = tuple(instructions)
        self.given = tuple(given) if given is not None else (False,) * len(instructions)
        self.sources = tuple(sources) if sources is not None else ("",) * len(instructions)
        self._targets = []
        for i, instruction in enumerate(instructions):
            words = subtask_sequences[i]
            known = spans[i] if spans is not None else [None] * len(words)
            self._targets.append(
                _targets(
                    spans=[span or _find(text, instruction) for span, text in zip(known, words, strict=True)],
                    task_types=task_types[i],
                    dependencies=dependencies[i],
                    model_selections=model_selections[i],
                    fallback=fallback[i] if fallback is not None else None,
                    given=self.given[i],
                    max_subtasks=max_subtasks,
                    max_fallbacks=max_fallbacks,
                )
            )

    @classmethod
    def from_examples(cls, examples: Sequence[TrainingExample], config: PlannerConfig) -> WorkflowDataset:
        """The plans of `examples`. An execution that failed may show how to decompose, but not whom to ask."""
        targets = [example.targets for example in examples]
        return cls(
            instructions=[example.instruction for example in examples],
            subtask_sequences=[target.instructions for target in targets],
            task_types=[target.task_types for target in targets],
            dependencies=[target.dependencies for target in targets],
            model_selections=[
                example.targets.model_selections if example.solved else [None] * len(example.targets)
                for example in examples
            ],
            spans=[target.spans for target in targets],
            fallback=[target.fallback for target in targets],
            given=[example.given for example in examples],
            sources=[example.suite for example in examples],
            max_subtasks=config.max_subtasks,
            max_fallbacks=config.max_fallbacks,
        )

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, index: int) -> Item:
        return Item(instruction=self.instructions[index], targets=self._targets[index])


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


def _targets(
    *,
    spans: Sequence[tuple[int, int] | None],
    task_types: Sequence[int | None],
    dependencies: Sequence[Sequence[int]],
    model_selections: Sequence[int | None],
    fallback: Sequence[Sequence[int]] | None,
    given: bool,
    max_subtasks: int,
    max_fallbacks: int,
) -> PlanTargets:
    """One plan, padded."""
    n = len(model_selections)
    if n > max_subtasks:
        raise ValueError(f"a plan of {n} subtasks, but max_subtasks is {max_subtasks}")
    targets = PlanTargets(
        lengths=torch.tensor(n),
        given=torch.tensor(given),
        spans=torch.full((max_subtasks, 2), IGNORE),
        task_types=torch.full((max_subtasks,), IGNORE),
        model_selections=torch.full((max_subtasks,), IGNORE),
        fallback=torch.full((max_subtasks, max_fallbacks), IGNORE),
        dependencies=torch.zeros(max_subtasks, max_subtasks, dtype=torch.bool),
    )
    for i in range(n):
        if (span := spans[i]) is not None:
            targets["spans"][i] = torch.tensor(span)
        if (kind := task_types[i]) is not None:
            targets["task_types"][i] = kind
        targets["dependencies"][list(dependencies[i]), i] = True
        if (worker := model_selections[i]) is not None:
            targets["model_selections"][i] = worker
        if worker is not None and fallback is not None:
            following = [*fallback[i], *[NO_WORKER] * max_fallbacks][:max_fallbacks]
            targets["fallback"][i] = torch.tensor(following, dtype=torch.long)
    return targets


def _find(words: str, instruction: str) -> tuple[int, int] | None:
    start = instruction.find(words) if words else -1
    return None if start < 0 else (start, start + len(words))
