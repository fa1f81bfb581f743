"""`orchestai plan`: the workflow that a trained planner makes of an instruction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CHECKPOINTS, CONFIG, ConfigFile, Overrides, flag
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.workflow import Workflow


def plan(
    instruction: Annotated[str, typer.Argument(help="What is to be done.")],
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[Path, flag("checkpoint", "Planner.")] = CHECKPOINTS / "phase2_best.pth",
    overrides: Overrides = None,
) -> None:
    """Print the workflow that a trained planner makes of an instruction, as JSON."""
    from orchestai.config import load_config

    workflow = make_plan(load_config(config, overrides or []), instruction, checkpoint)
    print(json.dumps(workflow.to_dict(), indent=2, ensure_ascii=False))


def make_plan(config: Config, instruction: str, checkpoint: Path) -> Workflow:
    """The workflow that the planner of `checkpoint` makes of `instruction`.

    Raises:
        UserError: there is no planner, or it makes no plan.
    """
    from orchestai.planner.checkpoint import open_checkpoint
    from orchestai.tasks.task import Task

    planner = open_checkpoint(checkpoint, config.planner, config.workers)
    answer = planner.plan([Task(task_id="0", suite="given", instruct_prompt=instruction, test="")])[0]
    if answer.workflow is None:
        raise UserError(f"no plan: {answer.error}")
    return answer.workflow
