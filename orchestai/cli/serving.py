"""Commands that put a planner to work, and let it learn on."""

from __future__ import annotations

import json
import logging
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import (
    CONFIG,
    EXECUTION_LOGS,
    ConfigFile,
    Overrides,
    flag,
    latest_checkpoint,
    load,
    override,
    run_async,
    say,
)
from orchestai.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestai.config import Config, PlannerConfig
    from orchestai.planner.base import Plan
    from orchestai.serving.improvement.registry import Measured
    from orchestai.serving.store import KeyStore


def serve(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        str | None,
        flag("checkpoint", "Planner, or a folder of versions; else the latest in checkpoints/, or the base planner."),
    ] = None,
    host: Annotated[str | None, flag("host", "Where to listen; this machine alone, unless told otherwise.")] = None,
    port: Annotated[int | None, flag("port", "0 takes a free one.")] = None,
    log: Annotated[str | None, flag("log", "What the execution log keeps: none, metadata (no texts) or full.")] = None,
    logs: Annotated[Path, flag("logs", "Folder of the execution log.")] = EXECUTION_LOGS,
    overrides: Overrides = None,
) -> None:
    """Serve /v1/chat/completions and what belongs to it, until Ctrl-C."""
    from orchestai.answering import Resilience
    from orchestai.execution.log import keeping
    from orchestai.orchestrator import Orchestrator
    from orchestai.serving.api.server import serve as serve_until_interrupted
    from orchestai.serving.api.service import text_change
    from orchestai.serving.improvement.registry import serving_checkpoint

    settings = [
        *override("serving.host", host),
        *override("serving.port", port),
        *override("serving.log", log),
    ]
    planner = checkpoint or latest_checkpoint()
    loaded = load(config, [*settings, *(overrides or [])], first_pool=planner is None)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    keeps = None if loaded.serving.log == "none" else logs
    serving = loaded.serving
    resilience = Resilience(failures=serving.failures)
    planner = planner and serving_checkpoint(planner)
    change = text_change(serving)
    keep = None if change is None else keeping(change)
    serve_until_interrupted(Orchestrator.open(planner, loaded, log=keeps, resilience=resilience, keep=keep))


PLANNERS = Path("planners")
Planners = Annotated[Path, flag("planners", "Folder of the versions.")]


def improve(
    config: ConfigFile = CONFIG,
    planners: Planners = PLANNERS,
    logs: Annotated[Path, flag("logs", "Folder of the servers' execution log.")] = EXECUTION_LOGS,
    checkpoint: Annotated[
        str | None, flag("checkpoint", "The first version, where there is none yet; else the latest in checkpoints/.")
    ] = None,
    data: Annotated[
        Path | None, flag("data", "Training file of the first version, repeated so that nothing is forgotten.")
    ] = None,
    output_dir: Annotated[Path | None, flag("output_dir", "Folder for what training writes.")] = None,
    phase2: Annotated[
        bool,
        typer.Option("--phase2/--no-phase2", help="Also train by reward, which may ask workers that are paid."),
    ] = True,
    overrides: Overrides = None,
) -> None:
    """Train a candidate from served runs with feedback, and compare it with the planner that serves."""
    from orchestai.serving.improvement.improve import Improvement
    from orchestai.serving.improvement.registry import PlannerRegistry
    from orchestai.serving.store import all_feedback

    loaded = load(config, overrides)
    registry = PlannerRegistry(planners)
    if registry.current is None:
        first = checkpoint or latest_checkpoint()
        if first is None:
            raise UserError(f"{planners}: no planner serves from here, and there is none to begin with: --checkpoint")
        registry.add(Path(first))
    said = all_feedback(loaded.serving.database)
    work = output_dir or Path("runs") / f"improve-{time.strftime('%Y%m%d-%H%M%S')}"
    lineage = run_async(Improvement(loaded, logs, said, registry, work, data, phase2).run())
    trial = lineage.trial
    assert trial is not None
    lines = [
        f"version {lineage.version}, from version {lineage.parent}, learned from "
        f"{lineage.learned['succeeded']} of {lineage.learned['runs']} served runs, which succeeded, and by reward on "
        f"{lineage.learned['phase2_tasks']} tasks",
        *(f"left out: {count}, {reason}" for reason, count in lineage.learned["left_out"].items()),
        f"success on {trial.difference.n} served tasks kept aside: {_shown(trial.candidate)}; version "
        f"{lineage.parent}: {_shown(trial.incumbent)}; difference {_shown(trial.difference, sign='+')}",
    ]
    if trial.sampling is not None:
        assert trial.over_sampling is not None
        lines.append(
            f"{trial.sampling_how}, for as much money: {_shown(trial.sampling)}; difference of the candidate to it "
            f"{_shown(trial.over_sampling, sign='+')}"
        )
    elif trial.sampling_how:
        lines.append(trial.sampling_how)
    if trial.is_better:
        lines.append(f"better beyond chance; let it serve with: orchestai promote {lineage.version}")
    else:
        lines.append("not better beyond chance, so it cannot be promoted; serve more runs with feedback")
    say(*lines)


def promote(
    version: Annotated[int, typer.Argument(help="As improve has named it.")], planners: Planners = PLANNERS
) -> None:
    """Let a version serve, which must be better than the one that serves now, beyond chance."""
    from orchestai.serving.improvement.registry import PlannerRegistry

    current = PlannerRegistry(planners).promote(version)
    say(f"version {current.version} serves; servers with --checkpoint {planners} take it over within seconds")


def rollback(planners: Planners = PLANNERS) -> None:
    """Let the version serve again that did before."""
    from orchestai.serving.improvement.registry import PlannerRegistry

    current = PlannerRegistry(planners).rollback()
    say(f"version {current.version} serves again; servers with --checkpoint {planners} take it over within seconds")


def _shown(measured: Measured, sign: str = "") -> str:
    if measured.mean is None:
        return "unknown"
    return f"{measured.mean:{sign}.3f} [{measured.low:{sign}.3f}, {measured.high:{sign}.3f}]"


def plan(
    instruction: Annotated[str, typer.Argument(help="What is to be done.")],
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        str | None, flag("checkpoint", "Planner; else the latest in checkpoints/, or the base planner.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Print the workflow that a planner makes of an instruction, as JSON; how sure it is goes to stderr."""
    from orchestai.config import BASE

    planner = checkpoint or latest_checkpoint()
    settings = load(config, overrides, first_pool=planner is None)
    made = make_plan(settings, instruction, planner or BASE)
    if made.workflow is None:
        raise UserError(f"no plan: {made.error}")
    print(json.dumps(made.workflow.to_dict(), indent=2, ensure_ascii=False))
    say(sureness(made, settings.planner))


def make_plan(config: Config, instruction: str, checkpoint: Path | str) -> Plan:
    """The plan that the planner of `checkpoint` makes of `instruction`; no fallback is asked."""
    from orchestai.planner.registry import open_to_plan
    from orchestai.tasks.asked_task import asked_task

    planner = open_to_plan(str(checkpoint), config.planner, config.workers)
    return planner.plan([asked_task(instruction, None, config.tasks)])[0]


def sureness(made: Plan, settings: PlannerConfig) -> str:
    """How likely a plan is right, and who is asked instead by `orchestai run` where that is not enough."""
    from orchestai.planner.serving import doubt_of

    doubt = doubt_of(made, settings.min_confidence)
    if doubt:
        return f"the planner {doubt}; `orchestai run` asks for the whole instead, as planner.min_confidence says"
    if made.confidence is None:
        return "nobody knows how probably the plan is right"
    return f"right with a chance of {made.confidence:.2f}"


keys = typer.Typer(no_args_is_help=True, help="Who may ask the endpoint, and for how much a day.")
Name = Annotated[str, typer.Argument(help="Of whoever has the key.")]


@keys.command()
def add(
    name: Name,
    config: ConfigFile = CONFIG,
    usd_per_day: Annotated[float | None, flag("usd_per_day", "Limit; none unless given. A day is one in UTC.")] = None,
    requests_per_minute: Annotated[int | None, flag("requests_per_minute", "Limit; none unless given.")] = None,
    overrides: Overrides = None,
) -> None:
    """Make a key and print its secret, which is not kept: nobody can show it again."""
    with _store(config, overrides) as store:
        print(store.add(name, usd_per_day, requests_per_minute))


@keys.command("list")
def list_(config: ConfigFile = CONFIG, overrides: Overrides = None) -> None:
    """List the keys: their limits, and what was spent of today's money."""
    with _store(config, overrides) as store:
        accounts = store.list()
    if not accounts:
        say("no keys; make one with: orchestai keys add NAME")
    for account in accounts:
        money = "no limit" if account.usd_per_day is None else f"{account.usd_per_day:g} USD a day"
        rate = "" if account.requests_per_minute is None else f", {account.requests_per_minute} requests a minute"
        today = f"{account.spent_usd:.6g} USD spent today"
        if account.reserved_usd:
            today += f", {account.reserved_usd:.6g} reserved"
        revoked = ", revoked" if account.revoked else ""
        line = f"{account.name}  {account.hint}...  {money}{rate}; {today}{revoked}"
        print(line)


@keys.command()
def revoke(name: Name, config: ConfigFile = CONFIG, overrides: Overrides = None) -> None:
    """Refuse a key from now on; what it has asked for already is answered, if it is paid for."""
    with _store(config, overrides) as store:
        store.revoke(name)
    say(f"{name}: revoked")


@contextmanager
def _store(config: ConfigFile, overrides: list[str] | None) -> Iterator[KeyStore]:
    from orchestai.serving.store import Database, KeyStore

    with Database.open(load(config, overrides).serving.database) as database:
        yield KeyStore(database)
