"""`orchestai evaluate`: both phases and the baselines on held-out tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orchestai.cli.options import (
    CHECKPOINTS,
    CONFIG,
    EXECUTION_LOGS,
    ConfigFile,
    Overrides,
    Record,
    flag,
    run_async,
    say,
)
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import Config, PlannerConfig, WorkersConfig
    from orchestai.evaluation.systems.evaluate import Evaluation
    from orchestai.execution.judging import JudgingExecutor
    from orchestai.execution.log import ExecutionLog
    from orchestai.planner.base import Planner
    from orchestai.planner.slots.encoders.encoder import TextEncoder


def evaluate(
    config: ConfigFile = CONFIG,
    phase1: Annotated[Path, flag("phase1", "Checkpoint of phase 1.")] = CHECKPOINTS / "phase1_best.pth",
    checkpoint: Annotated[Path, flag("checkpoint", "Checkpoint of phase 2.")] = CHECKPOINTS / "phase2_best.pth",
    logs: Annotated[Path, flag("logs", "Logs that the lookup baselines learn from.")] = EXECUTION_LOGS,
    output: Annotated[Path, flag("output", "JSON to write; a plot and the table's text go beside it.")] = Path(
        "evaluation.json"
    ),
    record: Record = None,
    overrides: Overrides = None,
) -> None:
    """Compare both phases with every baseline on held-out tasks."""
    from orchestai.config import load_config

    loaded = load_config(config, overrides or [])
    evaluation = run_async(
        run_evaluate(loaded, phase1=phase1, phase2=checkpoint, logs=logs, output=output, record=record)
    )
    console.print(evaluation.table())
    say(evaluation.conclusion)
    console.print(f"written: {output}, and the plot and the table beside it", highlight=False)


async def run_evaluate(
    config: Config, *, phase1: Path, phase2: Path, logs: Path, output: Path, record: Path | None = None
) -> Evaluation:
    """Compare both phases and the baselines on the evaluation split; writes JSON, table and plot."""
    from orchestai.evaluation.held_out import held_out_tasks
    from orchestai.evaluation.systems.evaluate import Logged, embedder
    from orchestai.evaluation.systems.evaluate import evaluate as run_evaluation
    from orchestai.evaluation.systems.runner import Runner
    from orchestai.execution.log import read_log
    from orchestai.execution.record import measured_in
    from orchestai.execution.runtime import open_runtime
    from orchestai.planner.checkpoint import open_checkpoint, reference_of, seen_by
    from orchestai.planner.checkpoint_files import is_checkpoint
    from orchestai.planner.outlook import open_outlook
    from orchestai.planner.serving import open_fallbacks
    from orchestai.rewards.scorers import refuse_unscorable
    from orchestai.storage import artifacts
    from orchestai.tasks.splits import open_splits
    from orchestai.training.rl.reward_setup import Measurement, open_reward

    splits = open_splits(config.tasks)
    refuse_unscorable(splits.whole)
    records = read_log(logs).records if logs.exists() else []
    paths = {name: path for name, path in (("phase 1", phase1), ("phase 2", phase2)) if is_checkpoint(path)}
    planners = {name: open_checkpoint(path, config.planner, config.workers) for name, path in paths.items()}
    if not planners:
        raise UserError(f"neither {phase1} nor {phase2} exists; train first, or pass --phase1 and --checkpoint")
    held_out = held_out_tasks(splits, {name: seen_by(path) for name, path in paths.items()})
    known = {phase1: is_checkpoint(phase1), phase2: is_checkpoint(phase2), logs: bool(records)}
    for what, path in (("phase 1", phase1), ("phase 2", phase2), ("the baselines that learn from logs", logs)):
        if not known[path]:
            say(f"{path}: nothing there; evaluating without {what}")
    # Before the work, so that a folder that cannot be written costs no evaluation.
    facts = {"phase1": str(phase1), "phase2": str(phase2), "logs": str(logs)}
    artifacts.save_run_info(output.parent, config, command="evaluate", **facts)
    named = config.rewards.reward_weights
    ours = str(list(paths.values())[-1])

    @asynccontextmanager
    async def other_workers(workers: WorkersConfig) -> AsyncIterator[JudgingExecutor]:
        async with open_runtime(workers, config.execution, config.sandbox, rewards=named, record=record) as runtime:
            yield runtime.executor

    measured = (reference_of(path) for path in (phase2, phase1) if known[path])
    reference = next(filter(None, measured), None) or measured_in(records)
    async with open_runtime(config.workers, config.execution, config.sandbox, rewards=named, record=record) as runtime:
        execute, concurrency = runtime.executor.execute, config.execution.concurrency
        measurement = Measurement(config.workers, held_out.kept, execute, concurrency)
        reward = await open_reward(config.rewards, config.training.phase2_rl, reference, measurement)
        say(*reward.remarks())
        evaluation = await run_evaluation(
            config,
            planners,
            Runner(runtime.executor, held_out.kept, reward, config.tasks.unscorable_limit),
            reward,
            Logged(embedder(_encoder(config.planner, planners)), records),
            open_executor=other_workers,
            fallbacks=open_fallbacks(ours, config.planner, config.workers, runtime.pool),
            outlook=open_outlook(ours),
            execution_log=_empty_log(output),
            shown=True,
        )
    evaluation = evaluation.on(held_out)
    evaluation.write(output)
    return evaluation


def _empty_log(output: Path) -> ExecutionLog:
    """The log beside the figures, without what an earlier evaluation has left in it."""
    from orchestai.execution.log import ExecutionLog

    log = ExecutionLog(output.with_name(f"{output.stem}_executions"), run_id="evaluation")
    log.path.unlink(missing_ok=True)
    log.check()
    return log


def _encoder(settings: PlannerConfig, planners: Mapping[str, Planner]) -> TextEncoder:
    """Of a planner that has one, else the configured one."""
    from orchestai.planner.slots.encoders.encoder import open_configured
    from orchestai.planner.slots.model import PlannerModel

    own = (planner.encoder for planner in planners.values() if isinstance(planner, PlannerModel))
    return next(own, None) or open_configured(settings)
