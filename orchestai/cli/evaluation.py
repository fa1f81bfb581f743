"""Commands that measure planners and their parts, and show runs as a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from orchestai.cli.options import (
    CHECKPOINTS,
    CONFIG,
    EXECUTION_LOGS,
    Columns,
    ConfigFile,
    JsonFile,
    Overrides,
    Reader,
    Record,
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
    from orchestai.config import Config, WorkersConfig
    from orchestai.evaluation.systems.evaluate import Evaluation
    from orchestai.execution.running_workflow import JudgingExecutor


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

    loaded = load(config, overrides)
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
    from orchestai.execution.log import ExecutionLog, read_log
    from orchestai.execution.record import measured_in
    from orchestai.execution.runtime import open_runtime
    from orchestai.planner.checkpoint import forecaster_of, open_checkpoint, reference_of, seen_by
    from orchestai.planner.files import is_checkpoint
    from orchestai.planner.serving import whole_planner
    from orchestai.planner.slots.model import PlannerModel
    from orchestai.planner.slots.text_encoder import open_encoder
    from orchestai.rewards.scorers import refuse_unscorable
    from orchestai.storage import artifacts
    from orchestai.tasks.splits import open_splits
    from orchestai.training.rl.setup import Measurement, open_reward

    splits = open_splits(config.tasks)
    refuse_unscorable(splits.whole)
    records = read_log(logs).records if logs.exists() else []
    paths = {name: path for name, path in (("phase 1", phase1), ("phase 2", phase2)) if is_checkpoint(path)}
    planners = {name: open_checkpoint(path, config.planner, config.workers) for name, path in paths.items()}
    known_steps = [planner for planner in planners.values() if isinstance(planner, PlannerModel)]
    for planner in known_steps[1:]:  # those that find the same steps find them once
        planner.share_steps(known_steps[0])
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
    log = ExecutionLog(output.with_name(f"{output.stem}_executions"), run_id="evaluation")
    log.path.unlink(missing_ok=True)  # what an earlier evaluation left
    log.check()
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
            Logged(embedder(open_encoder(config.planner.max_tokens)), records),
            open_executor=other_workers,
            whole=whole_planner(config.workers, runtime.pool),
            forecaster=forecaster_of(ours),
            execution_log=log,
            shown=True,
        )
    evaluation = evaluation.on(held_out)
    evaluation.write(output)
    return evaluation


def score(
    samples: Annotated[
        Path, typer.Argument(help="Samples (.jsonl, .jsonl.gz): rows with task_id, and completion or solution.")
    ],
    config: ConfigFile = CONFIG,
    suite: Annotated[str | None, flag("suite", "Suite of the samples, instead of tasks.suite.")] = None,
    k: Annotated[str, flag("k", "Print pass@k for these, such as 1,10.")] = "1",
    output: Annotated[Path | None, flag("output", "File of verdicts; SAMPLES_results.jsonl if absent.")] = None,
    json_path: JsonFile = None,
    checkpoint: Annotated[
        Path | None,
        flag("checkpoint", "The planner or agents that wrote the samples, to leave out tasks that it learned from."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Judge samples of a suite's tasks by their tests and print pass@k."""
    from orchestai.evaluation.samples import verdict_path

    try:
        ks = sorted({int(part) for part in k.split(",")})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise UserError(f"--k: {k!r} is not a list of numbers from 1; write it such as 1,10")
    loaded = load(config, [*(overrides or []), *override("tasks.suite", suite)])
    if not run_async(_score(loaded, samples, ks, output or verdict_path(samples), json_path, checkpoint)):
        raise typer.Exit(1)


async def _score(
    config: Config, samples: Path, ks: list[int], output: Path, json_path: Path | None, checkpoint: Path | None
) -> bool:
    """Judge the samples of a file, print what they are worth and keep the verdicts; whether all could be judged."""
    from orchestai.agents import policies
    from orchestai.evaluation.held_out import held_out_tasks
    from orchestai.evaluation.samples import progress_bar, read_samples
    from orchestai.evaluation.samples import score as judge
    from orchestai.execution.runtime import open_sandbox
    from orchestai.planner.checkpoint import seen_by
    from orchestai.sandbox.levels import refusal
    from orchestai.storage import artifacts
    from orchestai.tasks.splits import open_splits
    from orchestai.tasks.suite import data_fingerprint
    from orchestai.tasks.suites import open_suite

    suite = open_suite(config.tasks)
    tasks = [task for split in suite.splits for task in suite.split(split)]
    read, held_out = read_samples(samples, tasks), None
    if checkpoint is not None:
        of_agents = (checkpoint / policies.METADATA).exists()
        seen = policies.seen_by(checkpoint) if of_agents else seen_by(checkpoint)
        held_out = held_out_tasks(open_splits(config.tasks), {str(checkpoint): seen})
        tasks = list(held_out.kept)
        names = {task.task_id for task in tasks}
        read = [sample for sample in read if sample.task.task_id in names]
        if not read:
            raise UserError(f"{samples}: no sample is of one of the {len(names)} held-out tasks; write some for these")
    paths = [samples, output, *([json_path] if json_path else [])]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError(f"{output}: samples, verdicts (--output) and figures (--json) need a file each; rename one")
    with open_sandbox(config.sandbox, config.execution) as sandbox, progress_bar(len(read), console) as progress:
        level = sandbox.level
        if level == "none" and any(task.wants_program for task in tasks):
            raise UserError(f"score: {refusal()}; the suite's answers are among your files")
        report = await judge(read, sandbox, output, workers=sandbox.workers, progress=progress)
    console.print(report.table(ks, f"{suite.name}: {samples}"))
    say(
        *([] if held_out is None else held_out.remarks()),
        *report.remarks(ks, tasks=len(tasks)),
        f"{output}: {len(report.verdicts)} verdicts",
    )
    if json_path is not None:
        facts = {
            "suite": suite.name,
            "samples_file": str(samples),
            "data_fingerprint": data_fingerprint(tasks),
            "held_out": None if held_out is None else held_out.to_dict(lambda task: task.task_id),
            "sandbox": config.sandbox.model_dump(mode="json"),
            "level": level,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(json_path, {**report.to_dict(ks), **facts})
    return not report.lost


def evaluate_table(
    table: Annotated[list[Path], flag("table", "File or folder of outcomes; may be given several times.")],
    reader: Reader,
    columns: Columns = None,
    test_table: Annotated[list[Path] | None, flag("test_table", "Outcomes to test on, not parts of --table.")] = None,
    seeds: Annotated[int, flag("seeds", "Number of splits.", minimum=1)] = 3,
    answers: Annotated[
        str | None,
        flag("answers", "Judge replies by what is seen, compared as calls, numbers, texts, or by MODULE:FUNCTION."),
    ] = None,
    usd_per_1000: Annotated[
        float | None, flag("usd_per_1000", "Of seen answers: the budget; the best worker's cost if absent.", minimum=0)
    ] = None,
    labels: Annotated[
        int | None, flag("labels", "With --answers: how many verdicts to learn from; all if absent.", minimum=10)
    ] = None,
    run_replies: RunReplies = False,
    config: ConfigFile = CONFIG,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Compare routers on an outcome table: AIQ, APGR and more, with intervals, on queries that nothing learned from."""
    from orchestai.evaluation.tables.answers import evaluate_answers, see_answers
    from orchestai.evaluation.tables.estimates import BASELINES, OURS, estimate
    from orchestai.evaluation.tables.evaluate import evaluate_table as run_evaluation
    from orchestai.evaluation.tables.evaluate import to_dict, to_table
    from orchestai.planner.slots.text_encoder import query_features
    from orchestai.storage import artifacts

    if (labels or usd_per_1000) and not (answers or run_replies):
        raise UserError("--labels and --usd_per_1000 are of answers that are seen: add --answers or --run_replies")
    loaded = load(config, overrides)
    outcomes = read_table([*table, *(test_table or ())], reader, columns)
    test = read_table(test_table, reader, columns).ids if test_table else ()
    with console.status("embedding the queries") as status:

        def progress(doing: str) -> None:
            status.update(escape(doing))

        if run_replies:
            judged, _ = judged_replies(outcomes, loaded, progress)
            outcomes, seen, regime = judged.table, judged.seen(), "answers whose first test is seen"
        elif answers:
            seen, regime = see_answers(outcomes, answers), "unchecked answers"
        features = query_features(outcomes.texts, loaded.workers.models_dir)
        if answers or run_replies:
            compare = partial(evaluate_answers, test=test, seeds=range(seeds), labels=labels, progress=progress)
            compared = compare(outcomes, seen, features, usd_per_1000, regime=regime)
            printed, report, notes = compared.to_table(), compared.to_dict(), compared.facts["notes"]
        else:
            rows = BASELINES | {OURS: estimate}
            evaluation = run_evaluation(outcomes, features, rows, seeds=range(seeds), test=test, progress=progress)
            printed, report, notes = to_table(evaluation), to_dict(evaluation), evaluation.notes
    if json_path is not None:
        paths = [str(path) for path in (*table, *(test_table or ()))]
        artifacts.write_json(json_path, report | {"paths": paths, "reader": reader, "versions": artifacts.versions()})
    console.print(printed)
    say(*notes)
    if json_path is not None:
        say(f"written: {json_path}")


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
    """Compare a planner, and copies of the nearest training plan, with plans that others wrote, step by step."""
    from orchestai.data.training_file import data_fingerprint, load_training_data
    from orchestai.evaluation.plans import SAME_STEP, NamedPlans, choose_plans
    from orchestai.evaluation.plans import evaluate_plans as run_evaluation
    from orchestai.planner.checkpoint import load_planner, seen_by
    from orchestai.planner.files import is_checkpoint
    from orchestai.planner.slots.text_encoder import open_encoder, sentence_embedder
    from orchestai.storage import artifacts

    loaded = load(config, overrides)
    if checkpoint is None and is_checkpoint(_PLANNER):
        checkpoint = _PLANNER
    held_out, learned_from = choose_plans(
        NamedPlans(str(plans), load_training_data(plans, loaded)),
        {} if checkpoint is None else {str(checkpoint): seen_by(checkpoint)},
        None if training_data is None else NamedPlans(str(training_data), load_training_data(training_data, loaded)),
        include_learned=loaded.tasks.include_learned,
    )
    say(*held_out.remarks())
    planner = None if checkpoint is None else load_planner(checkpoint, loaded.planner, loaded.workers)
    embed = sentence_embedder(open_encoder(_SENTENCE_TOKENS))
    evaluation = run_evaluation(planner, held_out.kept, embed, learned=learned_from, console=console)
    if json_path is not None:
        learned = None
        if training_data is not None:
            learned = {"path": str(training_data), "data_fingerprint": data_fingerprint(training_data)}
        facts = {
            "plans": str(plans),
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "data_fingerprint": data_fingerprint(plans),
            "training_data": learned,
            "held_out": held_out.to_dict(lambda example: example.task_id),
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


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Logs, evaluations or folders of runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    config: ConfigFile = CONFIG,
) -> None:
    """Write one HTML page that shows runs: claims, training, every execution, groups, transcripts. It works offline."""
    from orchestai.report.build import build_report
    from orchestai.report.safe_text import visible
    from orchestai.serving.store import all_feedback

    def feedback() -> dict[str, dict[str, Any]]:
        """What is said of served runs in the database that the configuration names."""
        database = load(config).serving.database
        return {run_id: asdict(said) for run_id, said in all_feedback(database).items()}

    problems = build_report(paths, output, feedback=feedback)
    say(*(visible(problem) for problem in problems), f"written: {output}")
