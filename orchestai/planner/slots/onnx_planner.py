"""The slot planner without torch: its modules, exported as graphs by `scripts/export_onnx.py`, in ONNX Runtime."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan
from orchestai.planner.files import SHIPPED_FOLDER, check_base, other_version_of, read_base
from orchestai.planner.slots.decoding_rules import by_the_rules, finish_plan, rank_by_cards, step_words, word_edges
from orchestai.planner.slots.text_encoder import OnnxGraph, UnreadableTextError, open_encoder
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard

GRAPHS = SHIPPED_FOLDER / "graphs"
LEAST_TOKENS = 8
"""Of a text as the graphs take it; a shorter one is padded."""


def open_onnx_base(config: PlannerConfig, cards: Sequence[WorkerCard]) -> OnnxPlanner:
    """The base planner of `planner.base`, which knows the cards alone of its pool."""
    check_base(config, open_encoder(config.max_tokens).fingerprint)
    try:
        return OnnxPlanner(config, cards, read_base(config.base))
    except KeyError:
        raise other_version_of(config.base) from None


class OnnxPlanner:
    """Plans as `PlannerModel` does, one instruction at a time, and cannot be trained.

    Args:
        weights: of `PlannerModel`, by their names.
    """

    def __init__(self, config: PlannerConfig, cards: Sequence[WorkerCard], weights: Mapping[str, NDArray[Any]]) -> None:
        self.config = config
        self.cards = tuple(cards)
        self.encoder = open_encoder(config.max_tokens)
        wanted = json.loads((GRAPHS / "graphs.json").read_text())["weights"]
        self._read, self._step, self._end = (
            OnnxGraph(GRAPHS / f"{name}.onnx", {weight: weights[weight] for weight in wanted[name]})
            for name in ("read", "step", "end")
        )

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan greedily. A task that cannot be read gets a plan without a workflow."""
        return [by_the_rules(task, self.plan_instruction(task.instruction)) for task in tasks]

    def plan_instruction(self, instruction: str) -> Plan:
        """`plan` for a bare instruction, without the rules that depend on what it is planned for."""
        try:
            text = self.encoder.encode(instruction)
        except UnreadableTextError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error))
        # Outputs of the graph `end`
        arrays = {
            "features": text.features.astype(np.float32),
            "meanings": text.meanings.astype(np.float32),
            "mask": np.ones(len(text), bool),
            "edges": word_edges(text.text, text.offsets),
        }
        missing = max(0, LEAST_TOKENS - len(text))
        padded = {name: np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1)) for name, array in arrays.items()}
        state = self._read.run(padded)
        for _ in range(self.config.max_subtasks):
            step = self._step.run(state)
            state |= {name.replace("next.", "search."): value for name, value in step.items()}
            if state["search.beams.settled"].all():
                break
        found = self._end.run(state)
        n, confidence = int(found["length"]), float(found["confidence"])
        spans = found["spans"][:n]
        words = [step_words(instruction, text.offsets, span) for span in spans]
        ranks = rank_by_cards(self.encoder.sentences(words), self.encoder.sentences([card.text for card in self.cards]))
        workers = [[self.cards[w].name for w in row[: 1 + self.config.max_fallbacks]] for row in ranks]
        plan = finish_plan(text, spans, found["likely"][:n, :n], found["odds"][:n, :n], [""] * n, workers)
        return replace(plan, confidence=None if math.isnan(confidence) else confidence)
