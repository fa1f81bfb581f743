"""`orchestai evaluate-plans`: a planner compared with plans that others wrote, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CHECKPOINTS, CONFIG, ConfigFile, JsonFile, Overrides, flag, say
from orchestai.progress import console

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
    training_data: Annotated[
        Path | None,
        flag("training_data", "What was learned from: `nearest graph` copies from it, and its tasks are not scored."),
    ] = None,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Compare a planner, if there is one, and the trivial baselines with plans that others wrote, step by step."""
    from orchestai.config import load_config
    from orchestai.data.training_file import data_fingerprint, load_training_data
    from orchestai.evaluation.plans.evaluate import evaluate_plans as run_evaluation
    from orchestai.evaluation.plans.metrics import SAME_STEP
    from orchestai.evaluation.plans.scored_plans import NamedPlans, choose_plans
    from orchestai.planner.checkpoint import load_planner, seen_by
    from orchestai.planner.checkpoint_files import is_checkpoint
    from orchestai.planner.slots.encoders.encoder import MINILM, open_encoder
    from orchestai.planner.slots.encoders.sentences import sentence_embedder
    from orchestai.storage import artifacts

    loaded = load_config(config, overrides or [])
    if checkpoint is None and is_checkpoint(_PLANNER):
        checkpoint = _PLANNER
    scored = choose_plans(
        NamedPlans(str(plans), load_training_data(plans, loaded)),
        {} if checkpoint is None else {str(checkpoint): seen_by(checkpoint)},
        None if training_data is None else NamedPlans(str(training_data), load_training_data(training_data, loaded)),
        include_learned=loaded.tasks.include_learned,
    )
    if scored.remark:
        say(scored.remark)
    planner = None if checkpoint is None else load_planner(checkpoint, loaded.planner, loaded.workers)
    embed = sentence_embedder(open_encoder(MINILM, _SENTENCE_TOKENS))
    evaluation = run_evaluation(planner, scored.held_out.kept, embed, learned=scored.learned, console=console)
    if json_path is not None:
        learned = None
        if training_data is not None:
            learned = {"path": str(training_data), "data_fingerprint": data_fingerprint(training_data)}
        facts = {
            "plans": str(plans),
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "data_fingerprint": data_fingerprint(plans),
            "training_data": learned,
            "held_out": scored.to_dict(),
            "same_step": SAME_STEP,
            "versions": artifacts.versions(),
        }
        figures = {
            "rows": evaluation.to_dict(),
            "differences": evaluation.differences(),
            "per_plan": evaluation.per_plan(),
        }
        artifacts.write_json(json_path, figures | facts)
    console.print(evaluation.table())
    if planner is not None:
        console.print(evaluation.differences_table())
