"""What the commands do: each opens what it needs, calls one function of the product and says where the result is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path

from rich.console import Console

from orchestai.config import Config, WorkersConfig
from orchestai.data.collect import collect as run_collection
from orchestai.data.collect import progress_bar
from orchestai.data.prepare import prepare as run_preparation
from orchestai.data.prepare_plans import prepare_plans as run_plans_preparation
from orchestai.data.readers import find_reader
from orchestai.data.training_file import examples_fingerprint, load_training_data
from orchestai.errors import UserError
from orchestai.evaluation.held_out import held_out_tasks, hold_out
from orchestai.evaluation.plans.evaluate import PlansEvaluation, tested_plans
from orchestai.evaluation.plans.evaluate import evaluate_plans as run_plans_evaluation
from orchestai.evaluation.plans.metrics import SAME_STEP, sentence_embedder
from orchestai.evaluation.samples.files import read_samples, samples_of
from orchestai.evaluation.samples.score import progress_bar as progress_bar_of_score
from orchestai.evaluation.samples.score import score as run_score
from orchestai.evaluation.samples.verdicts import VerdictFile, check_distinct, verdict_path
from orchestai.evaluation.systems.evaluate import Evaluation, embedder
from orchestai.evaluation.systems.evaluate import evaluate as run_evaluation
from orchestai.execution.executor import Executor
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import measured_in
from orchestai.execution.result import Execution
from orchestai.execution.reward import Reward, reward_form
from orchestai.execution.runtime import open_runtime
from orchestai.planner.checkpoint import is_checkpoint, load_planner, reference_of, seen_by
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.registry import planner_for
from orchestai.planner.slots.encoder import MINILM, TextEncoder, open_encoder
from orchestai.planner.slots.model import PlannerModel
from orchestai.sandbox import Sandbox
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked
from orchestai.tasks import load_suite
from orchestai.tasks.seen import SeenTasks
from orchestai.tasks.splits import open_splits
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task
from orchestai.training.rl.open_reward import open_reward
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Workflow

console = Console(stderr=True)
_SENTENCE_TOKENS = 512
"""Longest sentence that is compared with others."""


def tasks_to_collect(config: Config) -> list[Task]:
    """The tasks to learn from, cut to `tasks.limit`, and as large a share of those to validate on; none for tests."""
    splits = open_splits(config.tasks)
    if said := splits.describe():
        console.print(said, highlight=False, markup=False, soft_wrap=True)
    train = splits.train[: config.tasks.limit]
    share = len(train) / max(len(splits.train), 1)
    return [*train, *splits.validation[: ceil(share * len(splits.validation))]]


async def collect(
    config: Config,
    *,
    planner: str,
    num_executions: int,
    output_dir: Path,
    seed: int = 0,
    record: Path | None = None,
) -> None:
    """Execute plans of `planner` on the tasks to learn from and to validate on, and log them to `output_dir`."""
    tasks = tasks_to_collect(config)

    form = reward_form(config, reference_of(planner) if is_checkpoint(planner) else None)

    def worth(execution: Execution) -> float | None:
        """None as long as there is nothing measured that costs could be compared with."""
        reward = None if form is None else form.of(execution)
        return reward.total if isinstance(reward, Reward) else None

    name = f"{planner}/{seed}"
    with locked(output_dir, f"collect-{artifacts.fingerprint(name)}"):  # a second one would pay for the same again
        async with open_runtime(config, record=record) as runtime:
            facts = {"planner": name, "num_executions": num_executions, "data_fingerprint": data_fingerprint(tasks)}
            level = runtime.sandbox.level
            artifacts.save_run_info(output_dir, config, command="collect", seed=seed, sandbox_level=level, **facts)
            with progress_bar(num_executions) as progress:
                state = await run_collection(
                    tasks,
                    planner_for(planner, config, runtime.pool, seed),
                    runtime.executor,
                    ExecutionLog(output_dir),
                    num_executions=num_executions,
                    planner_name=name,
                    pool=runtime.pool.names,
                    seed=seed,
                    reward=worth,
                    progress=progress,
                )
    for problem in state.problems:
        console.print(f"skipped in the log: {problem}", highlight=False, markup=False)
    console.print(
        f"{output_dir}: {state.total} executions ({state.continued} from before), "
        f"success {state.success_rate:.1%}, {state.cost_usd:.4f} USD, {state.unscorable} unscorable"
    )


def prepare(config: Config, *, logs: Path, output: Path) -> None:
    """Write training data from logs."""
    report = run_preparation(logs, config, output)
    console.print(report.table())
    for line in report.problems:
        console.print(line, highlight=False, markup=False)
    artifacts.save_run_info(output.parent, config, command="prepare", logs=str(logs))


def prepare_plans(config: Config, *, source: str, paths: Sequence[Path], output: Path, given: bool) -> None:
    """Write training data from plans that others wrote."""
    if not paths:
        raise UserError(f"prepare --from {source}: name the files or folders to read")
    report = run_plans_preparation(find_reader(source), paths, config, output, given=given)
    console.print(report.table())
    facts = {"source": source, "paths": [str(path) for path in paths], "given": given}
    artifacts.save_run_info(output.parent, config, command="prepare", **facts)


def train_phase1(config: Config, *, data: Path, output_dir: Path, resume: bool) -> None:
    """Phase 1 on a training file."""
    from orchestai.training.supervised.train import train

    train(config, data=data, output_dir=output_dir, resume=resume)


def train_phase2(config: Config, *, checkpoint: Path, output_dir: Path, resume: bool) -> None:
    """Phase 2 from a checkpoint of phase 1.

    Raises:
        UserError: as `train`, and at the end if no weight changed.
        SystemExit: a signal stopped it.
    """
    from orchestai.training.rl.setup import train

    summary = asyncio.run(train(config, checkpoint=checkpoint, output_dir=output_dir, resume=resume))
    summary.exit_if_stopped()
    summary.refuse_unchanged()


def validate(config: Config, *, checkpoint: Path, output_dir: Path | None) -> None:
    """What phase 2 would say of a checkpoint on its validation tasks."""
    from orchestai.training.rl.validate import validate as run_validation

    asyncio.run(run_validation(config, checkpoint=checkpoint, output_dir=output_dir))


async def evaluate(
    config: Config, *, phase1: Path, phase2: Path, logs: Path, output: Path, record: Path | None = None
) -> Evaluation:
    """Compare both phases and the baselines on the evaluation split; writes JSON, table and picture."""
    splits = open_splits(config.tasks)
    records = read_log(logs).records if logs.exists() else []
    cards = worker_cards(config.workers)
    paths = {name: path for name, path in (("phase 1", phase1), ("phase 2", phase2)) if is_checkpoint(path)}
    planners = {name: load_planner(path, config, cards) for name, path in paths.items()}
    if not planners:
        raise UserError(f"neither {phase1} nor {phase2} exists; train first, or pass --phase1 and --checkpoint")
    held_out = held_out_tasks(splits, {name: seen_by(path) for name, path in paths.items()})
    known = {phase1: is_checkpoint(phase1), phase2: is_checkpoint(phase2), logs: bool(records)}
    for what, path in (("phase 1", phase1), ("phase 2", phase2), ("the baselines that learn from logs", logs)):
        if not known[path]:
            console.print(f"{path}: nothing there; evaluating without {what}", highlight=False, markup=False)
    # Before the work, so that a folder that cannot be written costs no evaluation.
    facts = {"phase1": str(phase1), "phase2": str(phase2), "logs": str(logs)}
    artifacts.save_run_info(output.parent, config, command="evaluate", **facts)

    @asynccontextmanager
    async def other_workers(workers: WorkersConfig) -> AsyncIterator[Executor]:
        async with open_runtime(config.model_copy(update={"workers": workers}), record=record) as runtime:
            yield runtime.executor

    measured = (reference_of(path) for path in (phase2, phase1) if known[path])
    reference = next(filter(None, measured), None) or measured_in(records)
    async with open_runtime(config, record=record) as runtime:
        reward = await open_reward(config, reference, held_out.kept, runtime.executor.execute, None)
        for remark in reward.remarks():
            console.print(remark, highlight=False, markup=False)
        evaluation = await run_evaluation(
            config,
            planners,
            held_out.kept,
            runtime.executor,
            reward=reward,
            cards=cards,
            embed=embedder(_encoder(config, planners)),
            records=records,
            open_executor=other_workers,
            console=console,
        )
    evaluation = evaluation.on(held_out)
    evaluation.write(output)
    return evaluation


def evaluate_plans(config: Config, *, plans: Path, checkpoint: Path | None, figures: Path | None) -> PlansEvaluation:
    """Score a planner, if there is one, and what needs none, on plans that others wrote."""
    examples = load_training_data(plans, config)
    if not any(example.split == "test" for example in examples):
        console.print(
            f"{plans}: no plan is kept for tests, so all are scored that the planner is not known to have learned",
            highlight=False,
            markup=False,
        )
    planner = None if checkpoint is None else load_planner(checkpoint, config, worker_cards(config.workers))
    tested = tested_plans(examples)
    held_out = hold_out(
        tested,
        {} if checkpoint is None else {str(checkpoint): seen_by(checkpoint)},
        lambda example: example.asked,
        what=str(plans),
        include_learned=config.tasks.include_learned,
    )
    for line in held_out.remarks():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    others = [example for example in examples if example.split != "test"] if len(tested) < len(examples) else []
    embed = sentence_embedder(open_encoder(MINILM, _SENTENCE_TOKENS))
    evaluation = run_plans_evaluation(planner, [*others, *held_out.kept], embed)
    if figures is not None:
        facts = {
            "plans": str(plans),
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "data_fingerprint": examples_fingerprint(examples),
            "held_out": held_out.to_dict(lambda example: example.task_id),
            "same_step": SAME_STEP,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(figures, {"rows": evaluation.to_dict(), **facts})
    return evaluation


def _encoder(config: Config, planners: Mapping[str, PlannerModel | LanguagePlanner]) -> TextEncoder:
    """Of a planner that has one, else the configured one."""
    own = (planner.encoder for planner in planners.values() if isinstance(planner, PlannerModel))
    settings = config.planner
    return next(own, None) or open_encoder(settings.encoder, settings.max_tokens, settings.encoder_layer)


async def score(
    config: Config,
    *,
    samples: Path,
    ks: Sequence[int],
    output: Path | None = None,
    figures: Path | None = None,
    checkpoint: Path | None = None,
) -> bool:
    """Judge the samples of a file, print what they are worth and keep the verdicts; whether all could be judged.

    Args:
        checkpoint: the planner or agents that wrote the samples; those of tasks that it has seen are left out.
    """
    suite = load_suite(config.tasks.suite, config.tasks.path)
    tasks = [task for split in suite.splits for task in suite.split(split)]
    read = read_samples(samples, tasks)
    held_out = (
        None
        if checkpoint is None
        else held_out_tasks(open_splits(config.tasks), {str(checkpoint): _seen_by(checkpoint)})
    )
    if held_out is not None:
        read = samples_of(held_out.kept, read, samples)
        tasks = list(held_out.kept)
    output = output or verdict_path(samples)
    check_distinct([samples, output, *([figures] if figures else [])])
    file = VerdictFile(output)
    if file.problems:
        said = f"lines skipped: {len(file.problems)}; the first is {file.problems[0]}"
        console.print(said, highlight=False, markup=False, soft_wrap=True)
    with Sandbox.from_config(config.sandbox) as sandbox, progress_bar_of_score(len(read), console) as progress:
        level = sandbox.level
        if level == "process" and config.sandbox.level != "process":
            raise UserError(
                "score: programs cannot be isolated here, so they could read the suite's answers and earn any score; "
                "score where namespaces work (Linux with bubblewrap), or set sandbox.level=process if you trust them"
            )
        found = await run_score(read, sandbox, file, workers=config.sandbox.workers, progress=progress)
    console.print(found.table(ks, f"{suite.name}: {samples}"))
    known = f"{output}: {len(found.verdicts)} verdicts ({found.continued} from before)"
    remarks = [] if held_out is None else held_out.remarks()
    for line in [*remarks, *found.remarks(ks, tasks=len(tasks)), known]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if figures is not None:
        facts = {
            "suite": suite.name,
            "samples_file": str(samples),
            "data_fingerprint": data_fingerprint(tasks),
            "held_out": None if held_out is None else held_out.to_dict(lambda task: task.task_id),
            "sandbox": config.sandbox.model_dump(mode="json"),
            "level": level,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(figures, {**found.to_dict(ks), **facts})
    return not found.lost


def _seen_by(checkpoint: Path) -> SeenTasks:
    """Of a planner or of agents."""
    from orchestai.agents import policies

    return policies.seen_by(checkpoint) if (checkpoint / policies.METADATA).exists() else seen_by(checkpoint)


def plan(config: Config, instruction: str, checkpoint: Path) -> Workflow:
    """The workflow that the planner of `checkpoint` makes of `instruction`."""
    planner = load_planner(checkpoint, config, worker_cards(config.workers))
    made = planner.plan([Task(task_id="0", suite="given", instruct_prompt=instruction, test="")])[0]
    if made.workflow is None:
        raise UserError(f"no plan: {made.error}")
    return made.workflow
