"""Commands that learn: from logged runs to a checkpoint."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import (
    CHECKPOINTS,
    CONFIG,
    EXECUTION_LOGS,
    TRAINING_FILE,
    Columns,
    ConfigFile,
    OutputFolder,
    Overrides,
    Reader,
    Record,
    Resume,
    RunReplies,
    flag,
    judged_replies,
    load,
    override,
    read_table,
    run_async,
    say,
)
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.execution.result import JudgedExecution


def train_phase1(
    config: ConfigFile = CONFIG,
    data: Annotated[Path, flag("data", "Training file.")] = TRAINING_FILE,
    output_dir: OutputFolder = CHECKPOINTS,
    epochs: Annotated[int | None, flag("epochs", "Epochs instead of phase1_supervised.num_epochs.")] = None,
    batch_size: Annotated[int | None, flag("batch_size", "Instead of phase1_supervised.batch_size.")] = None,
    checkpoint: Annotated[Path | None, flag("checkpoint", "Planner to begin with; a new one if absent.")] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 1: learn decomposition and worker selection from training data."""
    from orchestai.training.supervised.run import BEST
    from orchestai.training.supervised.train import train

    section = "training.phase1_supervised"
    flags = [*override(f"{section}.num_epochs", epochs), *override(f"{section}.batch_size", batch_size)]
    loaded = load(config, [*(overrides or []), *flags])
    if train(loaded, data=data, output_dir=output_dir, resume=resume, start=checkpoint) is None:
        say(f"{output_dir / BEST}: asks whole tasks of whom the estimate beside {data} speaks best; it has no epochs")


def train_base(
    output_dir: Annotated[Path, flag("output_dir", "Folder for the base planner.")] = Path("runs/base"),
    data: Annotated[
        list[Path] | None, flag("data", "Training file of prepare-plans to learn from as well; repeatable.")
    ] = None,
    seed: Annotated[int, flag("seed", "Of the training.")] = 0,
    resume: Resume = False,
) -> None:
    """Train a base planner, which understands instructions and knows no pool; `planner.base` names its folder."""
    from orchestai.training.supervised.base import train_base as train

    digest = train(output_dir, data or [], seed=seed, resume=resume)
    say(f"{output_dir}: base planner {digest}; use it with planner.base={output_dir}")


def train_phase2(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[Path, flag("checkpoint", "Planner to start from.")] = CHECKPOINTS / "phase1_best.pth",
    output_dir: Annotated[
        Path | None, flag("output_dir", "Folder for checkpoints and metrics; `checkpoints` if absent.")
    ] = None,
    episodes: Annotated[int | None, flag("episodes", "Episodes instead of phase2_rl.num_episodes.")] = None,
    updates: Annotated[
        int | None, flag("updates", "Updates instead of phase2_rl.num_updates, whatever they take.", minimum=1)
    ] = None,
    evaluate_only: Annotated[
        Path | None,
        flag("evaluate_only", "Train nothing: judge this planner; with --output_dir, keep validation.json there."),
    ] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 2: improve the planner by the reward of executed plans. Start it with `accelerate launch` for many GPUs."""
    from orchestai.config.aliases import SHORT

    if episodes is not None and updates is not None:
        raise UserError("--episodes and --updates both say how long phase 2 lasts; give one of them")
    flags = [
        *override("training.phase2_rl.num_episodes", episodes),
        *(["training.phase2_rl.num_updates=null"] if episodes is not None else []),
        *override("training.phase2_rl.num_updates", updates),
    ]
    loaded = load(config, [*SHORT.replace(overrides or []), *flags])
    _train_or_validate(loaded, checkpoint, evaluate_only, output_dir, resume)


def train(overrides: Overrides = None) -> None:
    """Phase 2 on BigCodeBench, from a preset for this machine.

    Overrides are dotted, or short: run_cfg, trainer_cfg, model_name_or_path, train_batch_size, max_steps, checkpoint,
    output_dir, resume, evaluate_only; docs/bigcodebench.md explains them.
    """
    from orchestai.config.aliases import understand

    asked = understand(overrides or [])
    _train_or_validate(asked.config, asked.checkpoint, asked.evaluate_only, asked.output_dir, asked.resume)


def _train_or_validate(
    config: Config, checkpoint: Path, evaluate_only: Path | None, output_dir: Path | None, resume: bool
) -> None:
    from orchestai.training.rl.setup import validate

    if evaluate_only is not None:
        run_async(validate(config, checkpoint=evaluate_only, output_dir=output_dir))
    else:
        run_phase2(config, checkpoint=checkpoint, output_dir=output_dir or CHECKPOINTS, resume=resume)


def run_phase2(config: Config, *, checkpoint: Path, output_dir: Path, resume: bool) -> None:
    """Train phase 2 from a checkpoint of phase 1.

    Raises:
        UserError: it could not start, or no weight changed.
        SystemExit: a signal stopped it.
    """
    from orchestai.training.rl.setup import train

    summary = run_async(train(config, checkpoint=checkpoint, output_dir=output_dir, resume=resume))
    summary.exit_if_stopped()
    summary.refuse_unchanged()


_OVERRIDE = re.compile(r"[a-z_0-9]+(?:\.[\w-]+)+=")
_AUGMENTATIONS = "training.phase1_supervised.synthetic_augmentations"

TrainingFile = Annotated[Path, flag("output", "Training file to write.")]


def prepare(
    config: ConfigFile = CONFIG,
    logs: Annotated[Path, flag("logs", "Folder or file of execution logs.")] = EXECUTION_LOGS,
    output: TrainingFile = TRAINING_FILE,
    augment: Annotated[
        int | None, flag("augment", "Augmented examples to add; phase1_supervised.synthetic_augmentations if absent.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Turn execution logs into training data: the best execution of every task, and reworded copies."""

    words = [*(overrides or []), *override(_AUGMENTATIONS, augment)]
    run_prepare(load(config, words), logs=logs, output=output)


def run_prepare(config: Config, *, logs: Path, output: Path) -> None:
    """Write training data from logs, and say what became of them."""
    from orchestai.data.prepare import prepare as run_preparation
    from orchestai.storage import artifacts

    report = run_preparation(logs, config, output)
    console.print(report.table())
    say(*report.problems)
    artifacts.save_run_info(output.parent, config, command="prepare", logs=str(logs))


def prepare_plans(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="What the files are: worfbench, worfbench-tools, asynchow, break, orchestai, instructions, "
            "or a reader of your own, MODULE:FUNCTION.",
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH... [KEY=VALUE]...", help="Files to read, which instructions has; dotted overrides."
        ),
    ] = None,
    config: ConfigFile = CONFIG,
    output: TrainingFile = TRAINING_FILE,
) -> None:
    """Turn plans that others wrote into training data."""
    from orchestai.data.prepare_plans import prepare_plans as run_preparation
    from orchestai.data.readers import find_reader
    from orchestai.installed import here_or_shipped
    from orchestai.storage import artifacts
    from orchestai.tasks import instructions as instructions

    named = [word for word in words or [] if not _OVERRIDE.match(word)]
    paths = [here_or_shipped(word) for word in named]
    loaded = load(config, [word for word in words or [] if _OVERRIDE.match(word)])
    if not paths and source == instructions.NAME:
        paths = [instructions.folder()]
    if not paths:
        raise UserError(f"prepare-plans --from {source}: name the files or folders to read")
    report = run_preparation(find_reader(source), paths, loaded, output)
    console.print(report.table())
    facts = {"source": source, "paths": [str(path) for path in paths]}
    artifacts.save_run_info(output.parent, loaded, command="prepare-plans", **facts)


def prepare_table(
    table: Annotated[list[Path], flag("from_table", "File or folder of outcomes; may be given several times.")],
    reader: Reader,
    columns: Columns = None,
    run_replies: RunReplies = False,
    config: ConfigFile = CONFIG,
    output: TrainingFile = TRAINING_FILE,
    overrides: Overrides = None,
) -> None:
    """Turn a table of outcomes into training data and, with its replies, into a pool that runs without a key."""
    from orchestai.data.prepare_table import prepare_table as run_preparation
    from orchestai.data.prepare_table import refuse_overwriting
    from orchestai.estimate.attempts import FEWEST
    from orchestai.storage import artifacts

    refuse_overwriting(output, [*table, config])
    loaded = load(config, overrides)
    outcomes, tasks, visible = read_table(table, reader, columns), None, None
    with console.status("running replies" if run_replies else "learning from the outcomes") as status:
        if run_replies:
            judged, tasks = judged_replies(outcomes, loaded, status.update)
            outcomes, visible = judged.table.worded([task.instruction for task in tasks]), judged.visible
        report = run_preparation(outcomes, loaded, output, tasks, visible)
    console.print(report.table())
    if report.config is not None:
        replays = "" if report.replies else ", which plan and answer nothing, since the table has no replies"
        say(f"written: {report.config}, with a pool of recorded workers{replays}")
    if not report.outcomes:
        say(f"too few outcomes to learn whom to ask from: {FEWEST} of queries that are not for tests are needed")
    elif report.config is not None:
        say(f"next: orchestai train-phase1 --config {report.config} --data {output}")
    facts = {"paths": [str(path) for path in table], "reader": reader}
    artifacts.save_run_info(output.parent, loaded, command="prepare-table", **facts)


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

    words = [*(overrides or []), *override("tasks.suite", suite), *override("tasks.limit", limit)]
    work = run_collect(
        load(config, words),
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
    from orchestai.planner.files import is_checkpoint
    from orchestai.planner.registry import planner_for
    from orchestai.rewards.scorers import refuse_unscorable
    from orchestai.storage import artifacts
    from orchestai.storage.folder_lock import locked
    from orchestai.tasks.splits import open_splits
    from orchestai.tasks.suite import data_fingerprint

    splits = open_splits(config.tasks)
    if description := splits.describe():
        say(description)
    # Those to learn from, cut to `tasks.limit`, and as large a share of those to validate on; none for tests
    train = splits.train[: config.tasks.limit]
    share = len(train) / max(len(splits.train), 1)
    tasks = [*train, *splits.validation[: ceil(share * len(splits.validation))]]
    refuse_unscorable(tasks)
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
