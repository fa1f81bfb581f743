"""Phase 1 of the slot planner: it learns to imitate plans.

A planner that begins with the base finds steps and edges as the base does, and learns its pool alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
from orchestai.config.planner import NOTHING
from orchestai.data.training_file import IndexedPlan, TrainingExample, Vocabulary
from orchestai.errors import UserError
from orchestai.lm.length_batches import length_batches
from orchestai.planner.checkpoint import begin_with_base, load_planner, read_checkpoint, save_planner
from orchestai.planner.slots.decisions import DecisionBatch
from orchestai.planner.slots.losses import (
    IGNORE,
    NO_WORKER,
    OTHERS,
    PlannerOutputs,
    PlanTargets,
    check_words,
    cross_entropy,
)
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import UnreadableTextError
from orchestai.tasks.visible_examples import clean
from orchestai.training.calibration import Judged, calibrate, judge_plans
from orchestai.training.learner import FreedMemory, free_bytes, open_optimizer
from orchestai.training.supervised.dataset import LengthGroupedBatches, PlanDataset, located
from orchestai.training.supervised.metrics import (
    EdgeCounts,
    RunningMean,
    count_heads,
    count_plans,
    reference_plans,
)
from orchestai.training.supervised.run import Epochs, RunState, Setup, short, split_examples
from orchestai.workers.pool import worker_cards

_LEAST, _MOST, _BATCHES = 8, 256, 32
"""Steps of plans in a batch of those that a pool is learned from; within these, an epoch has so many batches."""


def begin(setup: Setup) -> RunState:
    """Open the planner, and the examples whose instructions it takes whole."""
    config = setup.config
    if setup.accelerator.num_processes > 1:
        raise UserError(
            "phase 1 of planner.kind=heads takes minutes in one process, and knows no other way; start it without "
            "accelerate launch"
        )
    planner = _open(setup)
    planner.to(setup.accelerator.device)

    def save(path: Path, facts: Mapping[str, Any]) -> None:
        save_planner(path, planner, config, **facts)

    if planner.base:
        examples = [example for example in setup.examples if example.split != "test"]
        learned, held_out = split_examples(examples, config.tasks, setup.data, setup.seen_before)
        planner.learn_only(frozenset({"type", "worker", "fallback"}))
        epochs = PoolImitation(planner, learned, held_out, setup.settings)
        return RunState(epochs, save, read_checkpoint, learned, held_out)
    learned, held_out = split_examples(_readable(setup, planner), config.tasks, setup.data, setup.seen_before)
    workers = [card.name for card in planner.cards]
    train, validation = (PlanDataset.from_examples(some, config.planner, workers) for some in (learned, held_out))
    return RunState(Imitation(planner, train, validation, setup.settings), save, read_checkpoint, learned, held_out)


def _open(setup: Setup) -> PlannerModel:
    config = setup.config
    if setup.start is None:
        new = PlannerModel(config.planner, worker_cards(config.workers))
        if config.planner.base != NOTHING:
            begin_with_base(new)
        return new
    planner = load_planner(setup.start, config.planner, config.workers)
    if not isinstance(planner, PlannerModel):
        raise UserError(f"{setup.start}: a language model; planner.kind=heads goes on from a planner of heads")
    return planner


def _readable(setup: Setup, planner: PlannerModel) -> list[TrainingExample]:
    """The examples whose instructions the planner takes whole, and steps too; what is read is kept for training.

    It may fill half of the memory that is free: an epoch goes through all of it, and reading an instruction anew takes
    longer than learning from it.
    """
    planner.encoder.room = max(planner.encoder.room, free_bytes() // 2)
    examples = [example for example in setup.examples if example.split != "test"]
    line = setup.progress.add_task("reading", total=len(examples), status="")
    readable, reason = [], ""
    for example in examples:
        try:
            steps = located(example.imitated, example.instruction).subtasks
            check_words([step.span for step in steps], planner.encoder.encode(example.instruction).offsets)
            readable.append(example)
        except UnreadableTextError as error:
            reason = f"{example.task_id or example.instruction[:40]!r}: {error}"
            setup.progress.console.print(f"{setup.data}: left out {reason}")
        setup.progress.advance(line)
    if examples and not readable:
        raise UserError(f"{setup.data}: none of {len(examples)} instructions can be read; the last, {reason}")
    return readable


class HeadsEpochs(Epochs):
    """What both trainings of heads do: a step on all that learns, and going on from a checkpoint."""

    planner: PlannerModel
    _learned: Sequence[nn.Parameter]

    def _descend(self, losses: Mapping[str, Tensor]) -> dict[str, float]:
        """Take a step on `total_loss`, unless it is not finite; gives the losses as numbers."""
        values = {name: loss.item() for name, loss in losses.items()}
        if math.isfinite(values["total_loss"]):
            self.optimizer.zero_grad()
            losses["total_loss"].backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._learned, self.settings.max_grad_norm)
            self.optimizer.step()
        return values

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` merged with the planner's `model_state_dict`."""
        self.planner.load_state_dict(state["model_state_dict"])
        super().load_state_dict(state)


class Imitation(HeadsEpochs):
    """Trains the heads on one set of plans and watches their loss on another."""

    def __init__(
        self, planner: PlannerModel, train: PlanDataset, validation: PlanDataset, settings: Phase1Config
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self._lengths = [len(planner.encoder.token_ids(instruction)) for instruction in train.instructions]
        self._learned = [parameter for parameter in planner.parameters() if parameter.requires_grad]
        self._freed = FreedMemory()
        optimizer = open_optimizer([{"params": self._learned, "lr": settings.learning_rate}], settings)
        super().__init__(optimizer, settings, -(-len(train) // settings.batch_size))

    def batches(self, epoch: int) -> Iterator[list[int]]:
        yield from LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def step(self, rows: list[int]) -> dict[str, float]:
        self.planner.train()
        instructions, targets = self._batch(self.train, rows)
        _, losses = self._decode(instructions, targets)
        values = self._descend(losses)
        self._freed.give_back()
        return values

    @property
    def plans_judged(self) -> int:
        return len(self.validation)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses and metrics on the validation set, without dropout; the planner's confidence is fitted to it."""
        running, edges = RunningMean(), EdgeCounts()
        judged: list[Judged] = []
        self.planner.eval()
        lengths = {row: len(instruction) for row, instruction in enumerate(self.validation.instructions)}
        for rows in length_batches(lengths, self.settings.batch_size):
            instructions, targets = self._batch(self.validation, rows)
            outputs, losses = self._decode(instructions, targets)
            count_heads(outputs, targets, running, edges)
            made = self.planner.plan_instructions(instructions)
            count_plans(made, outputs, targets, running)
            judged += judge_plans(self.planner, instructions, made, reference_plans(targets))
            for name, value in losses.items():
                running.add(short("val", name), value.item(), len(rows))
        calibrate(self.planner, judged, self.validation.sources)
        return {**running.means(), **edges.metrics()}

    def _decode(self, instructions: list[str], targets: PlanTargets) -> tuple[PlannerOutputs, dict[str, Tensor]]:
        outputs = self.planner(instructions, targets)
        return outputs, self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)

    def _batch(self, dataset: PlanDataset, rows: list[int]) -> tuple[list[str], PlanTargets]:
        batch = default_collate([dataset[row] for row in rows])
        device = self.planner.card_features.device
        targets = {key: value.to(device) for key, value in batch["targets"].items()}
        return batch["instruction"], cast(PlanTargets, targets)


@dataclass(frozen=True)
class _StepTargets:
    """Steps of plans, one row each: their words, and what to choose for them.

    Attributes:
        types, workers: (k,) indices, or `IGNORE`; fallbacks: (k, F) indices, `NO_WORKER`, or `IGNORE`.
    """

    words: list[str]
    types: Tensor
    workers: Tensor
    fallbacks: Tensor

    @classmethod
    def of(cls, examples: Sequence[TrainingExample], planner: PlannerModel) -> _StepTargets:
        """The steps of all examples that have words, and a type or a worker."""
        config = planner.config
        vocabulary = Vocabulary(config.task_types, tuple(card.name for card in planner.cards))
        words, types, workers, fallbacks = [], [], [], []
        for example in examples:
            imitated = example.imitated
            plan = IndexedPlan.of(imitated, vocabulary)
            for i, step in enumerate(imitated.subtasks):
                text = clean(example.instruction[slice(*step.span)]) if step.span else clean(step.instruction)
                kind, worker, further = plan.task_types[i], plan.model_selections[i], plan.fallback[i]
                if text and (kind is not None or worker is not None):
                    words.append(text)
                    types.append(IGNORE if kind is None else kind)
                    workers.append(IGNORE if worker is None else worker)
                    named = [] if worker is None or further is None else [*further, *[NO_WORKER] * config.max_fallbacks]
                    fallbacks.append([*named, *[IGNORE] * config.max_fallbacks][: config.max_fallbacks])
        return cls(
            words,
            torch.tensor(types, dtype=torch.long),
            torch.tensor(workers, dtype=torch.long),
            torch.tensor(fallbacks, dtype=torch.long).view(len(words), config.max_fallbacks),
        )

    def __len__(self) -> int:
        return len(self.words)


class PoolImitation(HeadsEpochs):
    """Trains the choice of types and workers on steps by themselves, each read once; steps and edges stay."""

    def __init__(
        self,
        planner: PlannerModel,
        learned: Sequence[TrainingExample],
        held_out: Sequence[TrainingExample],
        settings: Phase1Config,
    ) -> None:
        self.planner = planner
        self.train, self.validation = (_StepTargets.of(some, planner) for some in (learned, held_out))
        if not len(self.train) or not len(self.validation):
            raise UserError(
                f"{len(self.train)} steps to learn from and {len(self.validation)} to validate on name a type or a "
                "worker; collect more executions and run prepare again"
            )
        self._learned = [parameter for parameter in planner.selector.parameters() if parameter.requires_grad]
        optimizer = open_optimizer([{"params": self._learned, "lr": settings.learning_rate}], settings)
        self._size = min(_MOST, max(_LEAST, len(self.train) // _BATCHES))
        super().__init__(optimizer, settings, -(-len(self.train) // self._size))

    def batches(self, epoch: int) -> Iterator[list[int]]:
        order = torch.randperm(
            len(self.train), generator=torch.Generator().manual_seed(self.settings.seed * 1000 + epoch)
        )
        for first in range(0, len(self.train), self._size):
            yield order[first : first + self._size].tolist()

    def step(self, rows: list[int]) -> dict[str, float]:
        self.planner.train()
        _, losses = self._losses(self.train, rows)
        return self._descend(losses)

    @property
    def plans_judged(self) -> int:
        return len(self.validation)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses, and accuracies of types, workers and fallbacks, on the steps held out."""
        running = RunningMean()
        self.planner.eval()
        for first in range(0, len(self.validation), _MOST):
            rows = list(range(first, min(first + _MOST, len(self.validation))))
            wanted, losses = self._losses(self.validation, rows)
            for name, (logits, target) in wanted.items():
                known = target != IGNORE
                right = (logits.argmax(-1) == target)[known].float()
                running.add(f"{name}_accuracy", float(right.mean()) if len(right) else 0.0, len(right))
            for name, loss in losses.items():
                running.add(short("val", name), loss.item(), len(rows))
        return running.means()

    def _losses(
        self, steps: _StepTargets, rows: list[int]
    ) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
        """Logits and targets of each choice, and their cross-entropies."""
        planner, device = self.planner, self.planner.card_features.device
        types, workers, fallbacks = (each[rows].to(device) for each in (steps.types, steps.workers, steps.fallbacks))
        pool = len(planner.cards)
        given = DecisionBatch(
            lengths=torch.ones(len(rows), dtype=torch.long, device=device),
            spans=torch.zeros(len(rows), 1, 2, dtype=torch.long, device=device),
            types=torch.where(types == IGNORE, len(planner.config.task_types), types)[:, None],
            workers=torch.where(workers == IGNORE, pool, workers)[:, None],
            fallbacks=torch.where(fallbacks < 0, pool, fallbacks)[:, None],
            edges=torch.zeros(len(rows), 1, 1, dtype=torch.bool, device=device),
        )
        words = planner.selector.read([[steps.words[row]] for row in rows], device)
        logits = planner.selector(words, planner.card_features, given)
        wanted = {"type": (logits.types[:, 0], types), "worker": (logits.workers[:, 0], workers)}
        if fallbacks.shape[-1]:
            none = fallbacks.masked_fill(fallbacks == NO_WORKER, pool)
            wanted["fallback"] = logits.fallbacks[:, 0], none
        losses = {
            f"{name}_loss": cross_entropy(*pair, 0.0 if name == "type" else OTHERS) for name, pair in wanted.items()
        }
        return wanted, losses | {"total_loss": torch.stack(list(losses.values())).sum()}
