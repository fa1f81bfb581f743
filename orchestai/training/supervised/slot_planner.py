"""Phase 1 of the slot planner: it learns to imitate plans; steps that are given have batches of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.lm.length_batches import length_batches
from orchestai.planner.checkpoint import load_planner, read_checkpoint, save_planner
from orchestai.planner.slots.encoders.encoder import UnreadableTextError
from orchestai.planner.slots.loose_ends import one_result_log_odds
from orchestai.planner.slots.losses import GivenEdges, PlannerOutputs, given_edges_loss
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.targets import PlanTargets, check_words
from orchestai.training.calibration import Judged, calibrate, judge_plans
from orchestai.training.free_memory import free_bytes
from orchestai.training.malloc_trim import FreedMemory
from orchestai.training.optimizers import open_optimizer
from orchestai.training.supervised.dataset import LengthGroupedBatches, PlanDataset, located
from orchestai.training.supervised.epochs import Epochs, short
from orchestai.training.supervised.metrics import (
    EdgeCounts,
    RunningMean,
    count_heads,
    count_links,
    count_plans,
    reference_plans,
)
from orchestai.training.supervised.mixture_sampling import draw
from orchestai.training.supervised.run import RunState, Setup, split_examples
from orchestai.workers.pool import worker_cards

_OF_PRETRAINED = 0.1
"""Of the learning rate: layers that know language already should not lose it while others begin to learn."""


def begin(setup: Setup) -> RunState:
    """Open the planner, and the examples whose instructions it takes whole.

    Raises:
        UserError: there are several processes, no instruction can be read, or the planner cannot be opened.
    """
    config = setup.config
    if setup.accelerator.num_processes > 1:
        raise UserError(
            "phase 1 of planner.kind=heads takes minutes in one process, and knows no other way; start it without "
            "accelerate launch"
        )
    planner = _open(setup)
    planner.to(setup.accelerator.device)
    learned, held_out = split_examples(_readable(setup, planner), config.tasks, setup.data, setup.seen_before)
    found = [example for example in learned if not example.given]
    if found:
        planner.decoder.one_result.fill_(one_result_log_odds(example.workflow for example in found))
    workers = [card.name for card in planner.cards]
    train, validation = (PlanDataset.from_examples(some, config.planner, workers) for some in (learned, held_out))
    read = [torch.tensor(planner.encoder.token_ids(example.instruction)) for example in found]
    planner.familiar_words.learn(read)

    def save(path: Path, facts: Mapping[str, Any]) -> None:
        save_planner(path, planner, config, **facts)

    return RunState(Imitation(planner, train, validation, setup.settings), save, read_checkpoint, learned, held_out)


def _open(setup: Setup) -> PlannerModel:
    config = setup.config
    if setup.start is None:
        return PlannerModel(config.planner, worker_cards(config.workers), cache_dir=config.workers.models_dir)
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
            if example.given:
                planner.edge_predictor.read(example.instruction, example.spans)
            else:
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


def _groups(planner: PlannerModel, learning_rate: float) -> list[dict[str, Any]]:
    """Parameters that learn from nothing, then those of layers that were pretrained, each with their learning rate."""
    pretrained = [] if planner.reader.tuned is None else list(planner.reader.tuned.parameters())
    known = {id(parameter) for parameter in pretrained}
    new = [each for each in planner.parameters() if each.requires_grad and id(each) not in known]
    groups = [{"params": new, "lr": learning_rate}, {"params": pretrained, "lr": _OF_PRETRAINED * learning_rate}]
    return [group for group in groups if group["params"]]


class Imitation(Epochs):
    """Trains the heads on one set of plans and watches their loss on another."""

    def __init__(
        self, planner: PlannerModel, train: PlanDataset, validation: PlanDataset, settings: Phase1Config
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self._kinds = [[i for i, given in enumerate(train.given) if given == kind] for kind in (False, True)]
        self._lengths = [len(planner.encoder.token_ids(instruction)) for instruction in train.instructions]
        self._learned = [parameter for parameter in planner.parameters() if parameter.requires_grad]
        self._freed = FreedMemory()
        optimizer = open_optimizer(_groups(planner, settings.learning_rate), settings)
        super().__init__(optimizer, settings, sum(-(-len(kind) // settings.batch_size) for kind in self._kinds))

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """Each holds either steps that are given or steps that are to be found; the two kinds alternate evenly."""
        found: list[tuple[float, list[int]]] = []
        seed = self.settings.seed
        for kind in self._kinds:
            drawn = draw([self.train.sources[i] for i in kind], self.settings.source_temperature, seed, epoch)
            lengths = [self._lengths[kind[i]] for i in drawn]
            sampler = LengthGroupedBatches(lengths, self.settings.batch_size, seed=seed, epoch=epoch)
            found += [((k + 0.5) / len(sampler), [kind[drawn[i]] for i in rows]) for k, rows in enumerate(sampler)]
        yield from (rows for _, rows in sorted(found, key=lambda pair: pair[0]))

    def step(self, rows: list[int]) -> dict[str, float]:
        self.planner.train()
        instructions, targets = self._batch(self.train, rows)
        _, losses = (self._link if targets["given"].any() else self._decode)(instructions, targets)
        values = {name: loss.item() for name, loss in losses.items()}
        if math.isfinite(values["total_loss"]):
            self.optimizer.zero_grad()
            losses["total_loss"].backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._learned, self.settings.max_grad_norm)
            self.optimizer.step()
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
        for rows in self._validation_batches():
            instructions, targets = self._batch(self.validation, rows)
            if targets["given"].any():
                linked, losses = self._link(instructions, targets)
                count_links(linked, targets, running, edges)
            else:
                outputs, losses = self._decode(instructions, targets)
                count_heads(outputs, targets, running, edges)
                made = self.planner.plan_instructions(instructions)
                count_plans(made, outputs, targets, running)
                judged += judge_plans(self.planner, instructions, made, reference_plans(targets))
            for name, value in losses.items():
                running.add(short("val", name), value.item(), len(rows))
        if not all(self.train.given):
            pairs = zip(self.validation.sources, self.validation.given, strict=True)
            calibrate(self.planner, judged, [source for source, given in pairs if not given])
        return {**running.means(), **edges.metrics()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` merged with the planner's `model_state_dict`."""
        self.planner.load_state_dict(self.planner.added_since() | state["model_state_dict"])
        super().load_state_dict(state)

    def _link(self, instructions: list[str], targets: PlanTargets) -> tuple[GivenEdges, dict[str, Tensor]]:
        outputs: GivenEdges = self.planner.edge_predictor(instructions, targets)
        return outputs, given_edges_loss(outputs, targets, self.settings.lambda_dag)

    def _decode(self, instructions: list[str], targets: PlanTargets) -> tuple[PlannerOutputs, dict[str, Tensor]]:
        outputs = self.planner(instructions, targets)
        return outputs, self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)

    def _validation_batches(self) -> Iterator[list[int]]:
        for kind in (False, True):
            lengths = {
                row: len(instruction)
                for row, instruction in enumerate(self.validation.instructions)
                if self.validation.given[row] == kind
            }
            yield from length_batches(lengths, self.settings.batch_size)

    def _batch(self, dataset: PlanDataset, rows: list[int]) -> tuple[list[str], PlanTargets]:
        batch = default_collate([dataset[row] for row in rows])
        device = self.planner.card_features.device
        targets = {key: value.to(device) for key, value in batch["targets"].items()}
        return batch["instruction"], cast(PlanTargets, targets)
