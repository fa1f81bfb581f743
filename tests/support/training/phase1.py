"""Examples of phase 1 that a small planner learns, and a configuration for that."""

from __future__ import annotations

import json
from pathlib import Path

from orchestai.config import Config
from orchestai.data.training_file import Rewards, TrainingExample
from orchestai.training.supervised.slot_planner import Imitation
from orchestai.workflow import Subtask, Workflow

STEPS = {"sort the list": 1, "count its words": 0, "double the number": 2, "spell the date": 4}
"""Wordings, each with its type; its worker is the type modulo 2, and worker 2 follows where the type is even."""
WORKERS = ("words", "lists", "slow")


def config(**phase1: object) -> Config:
    tool = {"kind": "tool", "tool": "calculator"}
    return Config(
        planner={"base": "none", "d_model": 48, "num_layers": 1, "max_subtasks": 3, "max_fallbacks": 1},
        workers={
            "pool": {
                "words": {**tool, "card": "Good with words."},
                "lists": {**tool, "card": "Sorts whatever there is."},
                "slow": {**tool, "card": "Dear, slow, and always right.", "price_per_call_usd": 0.1},
            }
        },
        training={"phase1_supervised": {"learning_rate": 3e-3, "batch_size": 8, **phase1}},
    )


def example(*steps: str, split: str = "train") -> TrainingExample:
    """A chain of steps; the instruction "First, A. Then, B." is all that it needs."""
    instruction, spans = "", []
    for i, step in enumerate(steps):
        instruction += " Then, " if i else "First, "
        spans.append((len(instruction), len(instruction) + len(step)))
        instruction += step + "."
    types = config().planner.task_types
    subtasks = [
        Subtask(
            id=str(i + 1),
            instruction=step,
            task_type=types[STEPS[step]],
            worker=WORKERS[STEPS[step] % 2],
            depends_on=(str(i),) if i else (),
            fallback=() if STEPS[step] % 2 else ("slow",),
            span=span,
        )
        for i, (step, span) in enumerate(zip(steps, spans, strict=True))
    ]
    return TrainingExample(
        instruction=instruction,
        workflow=Workflow(subtasks),
        rewards=Rewards(success=1, cost=0, latency=0),
        task_id=instruction,
        split=split,
    )


def examples() -> list[TrainingExample]:
    held_out = [*zip(STEPS, [*STEPS][1:], strict=False)]
    pairs = [(a, b) for a in STEPS for b in STEPS if a != b and (a, b) not in held_out]
    learned = [*(example(*pair) for pair in pairs), *(example(a) for a in STEPS)]
    return learned + [example(*pair, split="validation") for pair in held_out]


def interrupted_after(epochs: int, run_epoch):
    def run(imitation: Imitation, *arguments):
        if imitation.epoch == epochs:
            raise KeyboardInterrupt
        return run_epoch(imitation, *arguments)

    return run


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "phase1_metrics.jsonl").read_text().splitlines()]
