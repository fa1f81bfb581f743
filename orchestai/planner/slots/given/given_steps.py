"""Plans of steps that instructions list: their edges by the edge predictor, types and workers by the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.nn.utils.rnn import pad_sequence

from orchestai.lm.length_batches import length_batches
from orchestai.planner.base import Plan
from orchestai.planner.slots.dag import best_expected_edges
from orchestai.planner.slots.decoder import Structure
from orchestai.planner.slots.encoders.encoder import UnreadableTextError
from orchestai.planner.slots.padding import padded
from orchestai.planner.slots.targets import IGNORE, PlanTargets, given_decisions

if TYPE_CHECKING:
    from orchestai.planner.slots.model import PlannerModel


class GivenSteps:
    """A planner with its edge predictor.

    Raises:
        UserError: it has none, as `planner.linker` is not configured.
    """

    def __init__(self, planner: PlannerModel) -> None:
        self._planner = planner
        self._edges = planner.edge_predictor

    @torch.no_grad()
    def plan(self, instructions: Sequence[str], steps: Sequence[Sequence[tuple[int, int]]]) -> list[Plan]:
        """Plans that are greedy and have no decisions: nothing is learned from them but by imitation.

        Args:
            steps: for each instruction the [start, end) character offsets of the steps in it.
        """
        plans: dict[int, Plan] = {}
        for i, (instruction, spans) in enumerate(zip(instructions, steps, strict=True)):
            try:
                self._edges.read(instruction, spans)
            except UnreadableTextError as error:
                plans[i] = Plan(workflow=None, raw_valid=False, error=str(error))
        readable = {i: len(instruction) for i, instruction in enumerate(instructions) if i not in plans}
        with self._planner.without_dropout():
            for rows in length_batches(readable):
                made = self._plan([instructions[i] for i in rows], [steps[i] for i in rows])
                plans.update(zip(rows, made, strict=True))
        return [plans[i] for i in range(len(instructions))]

    def _plan(self, instructions: Sequence[str], given: Sequence[Sequence[tuple[int, int]]]) -> list[Plan]:
        planner, config = self._planner, self._planner.config
        device = planner.card_features.device
        spans = [torch.tensor(row, device=device).view(-1, 2) for row in given]
        targets = PlanTargets(
            lengths=torch.tensor([len(row) for row in given], device=device),
            spans=pad_sequence(spans, batch_first=True, padding_value=IGNORE),
        )
        logits = self._edges(instructions, targets)["edge_logits"]
        texts = [planner.encoder.encode(instruction) for instruction in instructions]
        offsets = padded([text.offsets for text in texts], device)
        asked = given_decisions(targets, offsets, len(config.task_types), len(planner.cards), config.max_fallbacks)
        structure = Structure(asked.lengths, asked.spans, best_expected_edges(logits, asked.steps))
        batch = planner.choose_workers(instructions, texts, structure)
        return [replace(plan, decisions=None) for plan in planner.finish(texts, batch, logits)]
