"""`orchestai evaluate-plans`: a planner compared with plans that others wrote, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CHECKPOINTS, CONFIG, ConfigFile, JsonFile, Overrides, console, flag, say

_SENTENCE_TOKENS = 512
"""Longest sentence that is compared with others."""
_PLANNER = CHECKPOINTS / "phase1_best.pth"


def evaluate_plans(
    plans: Annotated[Path, flag("plans", "Training file with the plans.")],
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", "--phase1", help=f"The planner; {_PLANNER} if absent, or none if that is too."),
    ] = None,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Compare a planner, if there is one, and the trivial baselines with plans that others wrote, step by step."""
    from orchestai.config import load_config
    from orchestai.data.training_file import data_fingerprint, load_training_data
    from orchestai.evaluation.held_out import hold_out
    from orchestai.evaluation.plans.evaluate import evaluate_plans as run_evaluation
    from orchestai.evaluation.plans.evaluate import tested_plans
    from orchestai.evaluation.plans.metrics import SAME_STEP, sentence_embedder
    from orchestai.planner.checkpoint import load_planner, seen_by
    from orchestai.planner.checkpoint_files import is_checkpoint
    from orchestai.planner.slots.encoder import MINILM, open_encoder
    from orchestai.storage import artifacts

    loaded = load_config(config, overrides or [])
    if checkpoint is None and is_checkpoint(_PLANNER):
        checkpoint = _PLANNER
    examples = load_training_data(plans, loaded)
    if not any(example.split == "test" for example in examples):
        say(f"{plans}: no plan is kept for tests, so all are scored that the planner is not known to have learned")
    planner = None if checkpoint is None else load_planner(checkpoint, loaded.planner, loaded.workers)
    tested = tested_plans(examples)
    held_out = hold_out(
        tested,
        {} if checkpoint is None else {str(checkpoint): seen_by(checkpoint)},
        lambda example: example.asked,
        what=str(plans),
        include_learned=loaded.tasks.include_learned,
    )
    say(*held_out.remarks())
    others = [example for example in examples if example.split != "test"] if len(tested) < len(examples) else []
    embed = sentence_embedder(open_encoder(MINILM, _SENTENCE_TOKENS))
    evaluation = run_evaluation(planner, [*others, *held_out.kept], embed)
    if json_path is not None:
        facts = {
            "plans": str(plans),
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "data_fingerprint": data_fingerprint(plans),
            "held_out": held_out.to_dict(lambda example: example.task_id),
            "same_step": SAME_STEP,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(json_path, {"rows": evaluation.to_dict(), **facts})
    console.print(evaluation.table())
