"""Training of the base planner: steps and edges of synthetic instructions and compositions, without any pool."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestai.config import Config, Phase1Config, PlannerConfig, TrainingConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.data.augment import augment, exchange_phrases
from orchestai.data.prepare_plans import read_plans
from orchestai.data.readers import READERS
from orchestai.data.training_file import TrainingExample, load_training_data, save_training_data
from orchestai.planner.checkpoint import load_planner, round_to_shipped, save_base
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.instructions import NAME, folder
from orchestai.training.calibration import calibrate, judge_plans
from orchestai.training.supervised.run import BEST, LAST
from orchestai.training.supervised.train import train

SETTINGS: dict[str, Any] = {"batch_size": 32, "learning_rate": 1e-3, "lr_schedule": "linear", "num_epochs": 4}
"""Of `training.phase1_supervised`, for the base planner."""
_ORIGIN = {
    "composition": "generated from a grammar by this program; variations exchange steps",
    "instructions": "synthetic: written by a language model for this project under 31 style briefs; variations "
    "exchange phrases",
}
_COMPOSITION = "composition"
_VARIED, _EXCHANGED = 5000, 4000
"""Variations of compositions, and of synthetic instructions."""


def train_base(output_dir: Path, data: Sequence[Path] = (), *, seed: int = 0, resume: bool = False) -> str:
    """Train a base planner into `output_dir`, and write its weights and card there; gives its digest.

    Args:
        data: training files to learn from besides what ships, as `prepare-plans` writes them.
    """
    config = Config(
        planner=PlannerConfig(base=NOTHING),
        workers=WorkersConfig(),
        training=TrainingConfig(phase1_supervised=Phase1Config(**SETTINGS, seed=seed)),
    )
    written = output_dir / "base_examples.json"
    if not (resume and written.exists()):
        examples = base_examples(config, data, seed)
        counts: Counter[str] = Counter(example.split for example in examples)
        save_training_data(written, examples, config, counts=dict(counts))
    began = time.monotonic()
    train(config, data=written, output_dir=output_dir, resume=resume and (output_dir / LAST).exists())
    return export_base(config, output_dir, written, seconds=time.monotonic() - began)


def base_examples(config: Config, data: Sequence[Path], seed: int) -> list[TrainingExample]:
    """Compositions by their references, synthetic instructions, and variations of both; none that is for tests."""
    suite = load_suite(_COMPOSITION)
    compositions = [
        TrainingExample(
            instruction=task.instruction, workflow=task.reference, task_id=task.task_id, suite=_COMPOSITION, split=split
        )
        for split in ("train", "validation")
        for task in suite.split(split)
        if task.reference is not None
    ]
    instructions = _for_training(read_plans(READERS[NAME], [folder()], config)[0])
    exchanged = exchange_phrases(instructions, _EXCHANGED, seed=seed)
    varied = augment(compositions, _VARIED, evidence=None, seed=seed)
    further = _for_training(read_plans(READERS["orchestai"], data, config)[0])
    # without types, which are a pool's, as workers are
    nobody = {"task_type": "", "worker": "", "fallback": ()}
    return [
        one.model_copy(update={"workflow": one.workflow.replace({step.id: nobody for step in one.workflow.subtasks})})
        for one in (*compositions, *varied, *instructions, *exchanged, *further)
    ]


def _for_training(examples: Sequence[TrainingExample]) -> list[TrainingExample]:
    return [example for example in examples if example.split != "test"]


def export_base(config: Config, output_dir: Path, data: Path, *, seconds: float) -> str:
    """Write the weights that ship, with a confidence that is fitted to them as they ship, and the card."""
    planner = load_planner(output_dir / BEST, config.planner, config.workers)
    assert isinstance(planner, PlannerModel)
    round_to_shipped(planner)
    examples = load_training_data(data, config)
    held_out = [example for example in examples if example.split == "validation"]
    texts = [example.instruction for example in held_out]
    judged = judge_plans(planner, texts, planner.plan_instructions(texts), [example.workflow for example in held_out])
    calibrate(planner, judged, [example.suite for example in held_out])
    source, right = {example.instruction: example.suite for example in held_out}, dict[str, list[bool]]()
    for instruction, _, is_right in judged:
        right.setdefault(source[instruction], []).append(is_right)
    learned = Counter(example.suite for example in examples if example.split == "train")
    card = {
        "name": "OrchestAI base planner",
        "licence": "Apache-2.0",
        "command": "make planner",
        "learned_from": dict(learned),
        "how_that_was_made": _ORIGIN,
        "seed": config.training.phase1_supervised.seed,
        "seconds": round(seconds),
        "right_of_held_out": {name: f"{sum(found)} of {len(found)}" for name, found in sorted(right.items())},
        "versions": artifacts.versions(),
    }
    return save_base(output_dir, planner, card)
