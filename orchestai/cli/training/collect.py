"""`orchestai collect`: plan tasks, execute the plans, log the executions."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orchestai.cli.options import CONFIG, EXECUTION_LOGS, ConfigFile, Overrides, Record, flag, override, run_async, say

if TYPE_CHECKING:
    from orchestai.config import Config, TasksConfig
    from orchestai.execution.result import JudgedExecution
    from orchestai.tasks.task import Task


def collect(
    config: ConfigFile = CONFIG,
    num_executions: Annotated[
        int, flag("num_executions", "Workflows to execute, those already logged included.", minimum=1)
    ] = 200,
    output_dir: Annotated[Path, flag("output_dir", "Folder of the execution log.")] = EXECUTION_LOGS,
    planner: Annotated[
        str,
        flag("planner", "reference, random, heuristic, llm, whole:WORKER, reference:WORKER, or a checkpoint's path."),
    ] = "reference",
    suite: Annotated[str | None, flag("suite", "Suite instead of tasks.suite.")] = None,
    limit: Annotated[int | None, flag("limit", "Only the first so many tasks.")] = None,
    seed: Annotated[int, flag("seed", "Seed of the planner.")] = 0,
    record: Record = None,
    overrides: Overrides = None,
) -> None:
    """Plan tasks, execute the plans on the workers and log the executions. Interrupt and repeat it to continue."""
    from orchestai.config import load_config

    words = [*(overrides or []), *override("tasks.suite", suite), *override("tasks.limit", limit)]
    work = run_collect(
        load_config(config, words),
        planner=planner,
        num_executions=num_executions,
        output_dir=output_dir,
        seed=seed,
        record=record,
    )
    run_async(work)


async def run_collect(
    config: Config,
    *,
    planner: str,
    num_executions: int,
    output_dir: Path,
    seed: int = 0,
    record: Path | None = None,
) -> None:
    """Execute plans of `planner` on the tasks to learn from and to validate on, and log them to `output_dir`."""
    from orchestai.data.collect import Collection, progress_bar
    from orchestai.data.collect import collect as run_collection
    from orchestai.execution.log import ExecutionLog
    from orchestai.execution.reward import reward_form
    from orchestai.execution.runtime import open_runtime
    from orchestai.outcome import Reward
    from orchestai.planner.checkpoint import reference_of
    from orchestai.planner.checkpoint_files import is_checkpoint
    from orchestai.planner.registry import planner_for
    from orchestai.storage import artifacts
    from orchestai.storage.folder_lock import locked
    from orchestai.tasks.suite import data_fingerprint

    tasks = tasks_to_collect(config.tasks)
    form = reward_form(
        config.rewards, config.training.phase2_rl, reference_of(planner) if is_checkpoint(planner) else None
    )

    def worth(execution: JudgedExecution) -> float | None:
        """None as long as there is nothing measured that costs could be compared with."""
        reward = None if form is None else form.of(execution)
        return reward.total if isinstance(reward, Reward) else None

    name = f"{planner}/{seed}"
    with locked(output_dir, f"collect-{artifacts.fingerprint(name)}"):  # a second one would pay for the same again
        named = config.rewards.reward_weights
        async with open_runtime(
            config.workers, config.execution, config.sandbox, rewards=named, record=record
        ) as runtime:
            facts = {"planner": name, "num_executions": num_executions, "data_fingerprint": data_fingerprint(tasks)}
            level = runtime.sandbox.level
            artifacts.save_run_info(output_dir, config, command="collect", seed=seed, sandbox_level=level, **facts)
            limit = config.tasks.unscorable_limit
            asked = Collection(tasks, num_executions, name, runtime.pool.names, seed=seed, unscorable_limit=limit)
            with progress_bar(num_executions) as progress:
                state = await run_collection(
                    asked,
                    planner_for(planner, config.planner, config.workers, runtime.pool, seed, tasks),
                    runtime.executor,
                    ExecutionLog(output_dir),
                    reward=worth,
                    progress=progress,
                )
    say(
        *(f"skipped in the log: {problem}" for problem in state.problems),
        f"{output_dir}: {state.total} executions ({state.continued} from before), "
        f"success {state.success_rate:.1%}, {state.cost_usd:.4f} USD, {state.unscorable} unscorable",
        *(f"decomposed by {name}: {count} executions" for name, count in state.decomposed.most_common()),
    )


def tasks_to_collect(settings: TasksConfig) -> list[Task]:
    """The tasks to learn from, cut to `tasks.limit`, and as large a share of those to validate on; none for tests."""
    from orchestai.rewards.scorers import refuse_unscorable
    from orchestai.tasks.splits import open_splits

    splits = open_splits(settings)
    if description := splits.describe():
        say(description)
    train = splits.train[: settings.limit]
    share = len(train) / max(len(splits.train), 1)
    tasks = [*train, *splits.validation[: ceil(share * len(splits.validation))]]
    refuse_unscorable(tasks)
    return tasks
