"""`orchestai plan`: the workflow that a planner makes of an instruction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, latest_checkpoint, say
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.config import Config, PlannerConfig
    from orchestai.planner.base import Plan


def plan(
    instruction: Annotated[str, typer.Argument(help="What is to be done.")],
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        str | None, flag("checkpoint", "Planner; else the latest in checkpoints/, or the base planner.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Print the workflow that a planner makes of an instruction, as JSON; how sure it is goes to stderr."""
    from orchestai.config import BASE, FIRST_POOL, load_config

    planner = checkpoint or latest_checkpoint()
    settings = load_config(config, overrides or [], default=None if planner else FIRST_POOL)
    made = make_plan(settings, instruction, planner or BASE)
    if made.workflow is None:
        raise UserError(f"no plan: {made.error}")
    print(json.dumps(made.workflow.to_dict(), indent=2, ensure_ascii=False))
    say(sureness(made, settings.planner))


def make_plan(config: Config, instruction: str, checkpoint: Path | str) -> Plan:
    """The plan that the planner of `checkpoint` makes of `instruction`; no fallback is asked.

    Raises:
        UserError: there is no planner, or nothing is asked of it.
    """
    from orchestai.planner.registry import open_to_plan
    from orchestai.tasks.asked_task import asked_task

    planner = open_to_plan(str(checkpoint), config.planner, config.workers)
    return planner.plan([asked_task(instruction, None, config.tasks)])[0]


def sureness(made: Plan, settings: PlannerConfig) -> str:
    """How likely a plan is right, and who is asked instead by `orchestai run` where that is not enough."""
    from orchestai.planner.fallback import doubt_of

    doubt = doubt_of(made, settings.min_confidence)
    if doubt and settings.fallback:
        return f"the planner {doubt}; `orchestai run` leaves this to planner.fallback: {', '.join(settings.fallback)}"
    if made.confidence is None:
        return "nobody knows how probably the plan is right"
    return f"right with a chance of {made.confidence:.2f}"
