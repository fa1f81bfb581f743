"""Execution logs to training data: the best execution of every task, as the plan that should have been made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from rich.table import Table

from orchestai.config import Config, TasksConfig
from orchestai.data.augment import augment, exchange_phrases
from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.prepare_plans import read_plans
from orchestai.data.readers import READERS
from orchestai.data.training_file import Rewards, TrainingExample, save_training_data
from orchestai.errors import UserError, first_problem
from orchestai.estimate.answers import AnswerJudge, Verdicts, fit_answer_judge
from orchestai.estimate.attempts import FEWEST, WHOLE, PlannedStep, Rows, StepAttempts, Values
from orchestai.estimate.plan_options import plan_options
from orchestai.estimate.pool_estimate import PoolEstimate, fit_pool_estimate
from orchestai.execution.log import read_log
from orchestai.execution.record import ExecutionRecord, SubtaskRecord, measured_in
from orchestai.execution.result import Attempt
from orchestai.execution.reward import RewardForm, reward_form
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import write_estimate
from orchestai.planner.files import estimate_path
from orchestai.planner.forecast import PoolForecaster, expected_reward
from orchestai.planner.slots.text_encoder import MAX_SENTENCE_TOKENS, open_encoder, sentence_embedder
from orchestai.plugins import did_you_mean
from orchestai.rewards.step_credit import credit_steps
from orchestai.tasks.instructions import NAME, folder
from orchestai.tasks.splits import divide, place
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow, WorkflowError


def with_best_workers(
    examples: Sequence[TrainingExample], estimate: PoolEstimate, reward: RewardForm | None, longest: int
) -> list[TrainingExample]:
    """The examples with the estimate's workers for their steps.

    Plans that failed get workers, too. Examples with steps that the estimate knows too little of stay as they are.

    Args:
        reward: of phase 2; None: success alone counts.
        longest: most workers to ask for one step.
    """
    pool, relabeled = PoolForecaster(estimate), []
    for example in examples:
        forecaster = pool.of(Plan(workflow=example.workflow, raw_valid=True, confidence=1.0), example.instruction)
        if forecaster is not None:
            options = plan_options(forecaster.steps, range(len(estimate.workers)), longest)
            best = int(np.argmax(expected_reward(options, estimate, reward)))
            example = example.model_copy(update={"workflow": forecaster.with_workers(options.workers[best])})
        relabeled.append(example)
    return relabeled


class TargetsError(ValueError):
    """The execution cannot be learned from; the message says why, in words that can be counted."""


def targets_of(record: ExecutionRecord, config: Config) -> TrainingExample:
    """The plan of an execution with hindsight: each subtask gets the worker whose answer counted.

    Raises:
        TargetsError: the plan has a worker, type or size that the configuration does not know.
    """
    size = len(record.planner_outputs.model_selections)
    if size > config.planner.max_subtasks:
        raise TargetsError(f"more subtasks than planner.max_subtasks={config.planner.max_subtasks}")
    if size == 0:
        raise TargetsError("no valid plan")
    try:
        return TrainingExample(
            instruction=record.instruction,
            workflow=_from_subtasks(record, config) if record.subtasks else _from_outputs(record, config),
            rewards=Rewards(
                success=min(max(float(record.success) if record.score is None else record.score, 0.0), 1.0),
                cost=-record.cost,
                latency=-record.latency_ms / 1000,
            ),
            task_id=record.task_id,
            suite=record.suite,
        )
    except (ValidationError, WorkflowError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise TargetsError(f"not a plan ({problem})") from None


def _from_subtasks(record: ExecutionRecord, config: Config) -> Workflow:
    subtasks = []
    for logged in record.subtasks:
        listed = logged.workers  # from the one whose answer counted, if any did, to the last fallback
        if logged.answered_by in listed:
            listed = listed[listed.index(logged.answered_by) :]
        listed = listed[: 1 + config.planner.max_fallbacks]
        worker, *fallback = (_worker(name, config) for name in listed)
        words, span = logged.instruction, logged.span  # else the one place where the instruction has its words
        if span is None and words and record.instruction.count(words) == 1:
            span = (start := record.instruction.index(words)), start + len(words)
        subtask = Subtask(
            id=logged.id,
            instruction=logged.instruction,
            task_type=_task_type(logged.task_type, config),
            worker=worker,
            depends_on=logged.depends_on,
            fallback=tuple(fallback),
            span=span,
        )
        subtasks.append(subtask)
    return Workflow(subtasks)


def _from_outputs(record: ExecutionRecord, config: Config) -> Workflow:
    """From a line without subtasks: the plan is all that it says."""
    outputs = record.planner_outputs
    size = len(outputs.model_selections)
    adjacency = outputs.workflow_graph.adjacency
    if len(adjacency) != size or any(len(row) != size for row in adjacency):
        raise TargetsError("adjacency and model_selections differ in size")
    pool = record.pool or tuple(config.workers.pool)
    if not all(0 <= index < len(pool) for index in outputs.model_selections):
        raise TargetsError("a model selection outside the pool")
    if len(types := outputs.task_types or ("",) * size) != size:
        raise TargetsError("task_types and model_selections differ in size")
    return Workflow(
        [
            Subtask(
                id=str(j + 1),
                instruction="",
                task_type=_task_type(types[j], config),
                worker=_worker(pool[index], config),
                depends_on=tuple(str(i + 1) for i in range(size) if adjacency[i][j]),
            )
            for j, index in enumerate(outputs.model_selections)
        ]
    )


def _worker(name: str, config: Config) -> str:
    if name not in config.workers.pool:
        raise TargetsError(f"worker {name!r} is not in workers.pool")
    return name


def _task_type(name: str | int, config: Config) -> str:
    """The name of the type; empty where the plan names none."""
    known = config.planner.task_types
    if isinstance(name, int) and 0 <= name < len(known):
        return known[name]
    if name not in ("", *known):
        raise TargetsError(f"task type {name!r} is not in planner.task_types")
    return str(name)


Candidate: TypeAlias = tuple[ExecutionRecord, TrainingExample]
FOR_TESTS = "the task is kept for tests"


@dataclass(frozen=True)
class PrepareReport:
    """What `prepare` kept, added and left out.

    Attributes:
        executions: lines read.
        tasks: different tasks among them.
        kept: tasks that gave an example.
        augmented: further examples made from those, and from the mixture.
        mixture: examples that `phase1_supervised.mixture` adds.
        train, validation: examples by split.
        dropped: reason -> number of executions, and of tasks where the reason says so.
        problems: log lines that could not be read.
        subtasks: different ones that the estimate of the workers was learned from; 0 where there is no estimate.
    """

    executions: int
    tasks: int
    kept: int
    augmented: int
    mixture: int
    train: int
    validation: int
    dropped: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    subtasks: int = 0

    def table(self) -> Table:
        """For the terminal."""
        table = Table("prepare", "number", title_justify="left")
        for name in ("executions", "tasks", "kept", "augmented", "mixture", "train", "validation"):
            table.add_row(name, str(getattr(self, name)))
        table.add_row("subtasks estimated", str(self.subtasks) if self.subtasks else "none: too few executions")
        if self.problems:
            table.add_row("unreadable lines", str(len(self.problems)))
        for reason, count in self.dropped.items():
            table.add_row(f"dropped: {reason}", str(count))
        return table


def prepare(logs: Path | str | Sequence[Path | str], config: Config, output: Path | str) -> PrepareReport:
    """Write the training file, its sidecar, and the estimate of the workers by all attempts.

    For each task the best execution is kept: the highest score, then the cheapest, then fastest; whether tasks that
    none solved are kept is for `phase1_supervised.keep` to say. Targets name the workers of the highest expected reward
    by all attempts (`with_best_workers`), or those whose answers counted where too few were judged. At most
    `train_data_size` tasks are written, and `synthetic_augmentations` examples that vary them, beside the plans of
    `mixture` and `mixture_augmentations` that vary these. All variations are for training. Nothing is taken of tasks
    that are kept for tests, and nothing of those to validate on goes into the estimate.
    """
    check_mixture(config)
    contents = read_log(logs)
    if not contents.records:
        raise UserError(f"{_shown(logs)}: no executions in the log; collect some first")
    dropped: Counter[str] = Counter()
    judged: list[Candidate] = []
    for record in contents.records:
        if record.outcome != "scored":
            dropped["unscorable" if record.outcome == "unscorable" else "nobody has judged it"] += 1
        elif config.training.phase1_supervised.keep == "success" and not record.success:
            dropped["no full score, or no plan"] += 1
        else:
            try:
                judged.append((record, targets_of(record, config)))
            except TargetsError as reason:
                dropped[str(reason)] += 1
    candidates = _divided(judged, config.tasks, dropped)
    first: dict[tuple[str, str], Candidate] = {}
    instructions: set[str] = set()
    for candidate in sorted(candidates, key=lambda pair: _rank(pair[0])):
        task, instruction = _task(candidate[0]), candidate[0].instruction
        if task in first:
            dropped["a better execution of the same task was kept"] += 1
        elif instruction in instructions:
            dropped["another task has the same instruction"] += 1
        else:
            first[task] = candidate
            instructions.add(instruction)
    best = list(first.values())
    size = config.training.phase1_supervised.train_data_size
    if len(best) > size:
        dropped[f"tasks beyond train_data_size={size}"] = len(best) - size
        best = sorted(best, key=lambda candidate: place(candidate[0].instruction, "choice"))[:size]
    if not best:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in dropped.most_common())
        raise UserError(f"{_shown(logs)}: no execution can be learned from ({reasons}); collect more, or other tasks")
    examples = [example for _, example in best]
    added = augment(
        examples,
        config.training.phase1_supervised.synthetic_augmentations,
        evidence=[example for record, example in candidates if record.success and example.split == "train"],
        seed=config.training.phase1_supervised.seed,
    )
    reference = measured_in(contents.records)
    held_out = {record.instruction for record, example in candidates if example.split != "train"}
    known = [record for record in for_training(contents.records, config.tasks) if record.instruction not in held_out]
    estimate = fit_estimate(known, config)
    logged = [*examples, *added]
    if estimate is not None:
        reward = reward_form(config.rewards, config.training.phase2_rl, reference)
        logged = with_best_workers(logged, estimate, reward, 1 + config.planner.max_fallbacks)
    beside, settings = list[TrainingExample](), config.training.phase1_supervised
    for name in settings.mixture:
        reader, path = (NAME, folder()) if name == NAME else ("orchestai", Path(name))
        found, left_out = read_plans(READERS[reader], [path], config)
        dropped.update({f"{name}: {reason}": count for reason, count in left_out.items()})
        beside += [example for example in found if example.split != "test"]
    exchanged = exchange_phrases(beside, settings.mixture_augmentations, seed=settings.seed)
    written = [*logged, *beside, *exchanged]
    splits = Counter(example.split for example in written)
    report = PrepareReport(
        executions=len(contents.records),
        tasks=len({_task(record) for record in contents.records}),
        kept=len(examples),
        augmented=len(added) + len(exchanged),
        mixture=len(beside),
        train=splits["train"],
        validation=splits["validation"],
        dropped=dict(dropped.most_common()),
        problems=contents.problems,
    )
    counts = {"train": report.train, "validation": report.validation, "augmented": report.augmented}
    save_training_data(output, written, config, counts=counts, dropped=report.dropped, reference=reference)
    write_estimate(estimate_path(output), estimate)
    return replace(report, subtasks=0 if estimate is None else len(estimate.known))


def check_mixture(config: Config) -> None:
    """Raise `UserError` where `phase1_supervised.mixture` names what is not there; reads nothing."""
    for name in config.training.phase1_supervised.mixture:
        if name != NAME and not Path(name).exists():
            raise UserError(
                f"training.phase1_supervised.mixture: {name!r} is neither `{NAME}` nor a file here; name `{NAME}`, or "
                f"a training file that prepare-plans wrote{did_you_mean(name, [NAME])}"
            )


def _rank(record: ExecutionRecord) -> tuple[float, float, float, str]:
    score = record.score if record.score is not None else float(record.success)
    return -score, record.cost, record.latency_ms, record.timestamp


def _task(record: ExecutionRecord) -> tuple[str, str]:
    return record.suite, record.task_id or record.instruction


def _divided(candidates: Sequence[Candidate], tasks: TasksConfig, dropped: Counter[str]) -> list[Candidate]:
    """The executions of tasks to learn from and to validate on, marked so.

    `collect` logs the part of each task. Tasks of a log without parts are divided as those of a suite are. Where none
    is for validation, a share of those to learn from is.
    """
    parts = _parts([record for record, _ in candidates], tasks)
    if "validation" not in parts:
        known = [record.instruction for (record, _), part in zip(candidates, parts, strict=True) if part == "train"]
        learned = iter(divide(known, tasks, ("train", "validation")))
        parts = [next(learned) if part == "train" else part for part in parts]
    kept = [
        (record, example.model_copy(update={"split": part}))
        for (record, example), part in zip(candidates, parts, strict=True)
        if part in ("train", "validation")
    ]
    if len(kept) < len(candidates):
        dropped[FOR_TESTS] = len(candidates) - len(kept)
    return kept


def for_training(records: Sequence[ExecutionRecord], tasks: TasksConfig) -> list[ExecutionRecord]:
    """The executions of tasks to learn from."""
    return [record for record, part in zip(records, _parts(records, tasks), strict=True) if part == "train"]


def _parts(records: Sequence[ExecutionRecord], tasks: TasksConfig) -> list[str]:
    """The part of each record's task, as logged or else as a suite would be divided."""
    unmarked = iter(divide([record.instruction for record in records if not record.split], tasks))
    return [record.split or next(unmarked) for record in records]


def _shown(logs: Path | str | Sequence[Path | str]) -> str:
    return str(logs) if isinstance(logs, str | Path) else ", ".join(map(str, logs))


def fit_estimate(records: Sequence[ExecutionRecord], config: Config) -> PoolEstimate | None:
    """What the executions say of the configured pool; None where fewer than twenty of them were judged."""
    attempts = step_attempts(records, worker_cards(config.workers))
    if len(attempts.succeeded) < FEWEST:
        return None
    estimate = fit_pool_estimate(attempts, sentence_embedder(open_encoder(MAX_SENTENCE_TOKENS))(attempts.texts))
    return None if estimate is None else replace(estimate, judge=_judge(records, estimate.workers))


def _judge(records: Sequence[ExecutionRecord], workers: Sequence[str]) -> AnswerJudge | None:
    """What the answers to whole tasks say that were judged, or say the same as one that was, in so many words."""
    place = {name: number for number, name in enumerate(workers)}
    found: dict[str, dict[str, tuple[Attempt, float]]] = {}
    for record in records:
        if record.outcome != "scored" or len(record.subtasks) != 1 or record.tests_total or record.in_dialogue:
            continue
        [step] = record.subtasks
        kept = next((one for one in step.attempts if one.worker == step.answered_by and one.error is None), None)
        if kept is not None and type_of(step, record.instruction) == WHOLE:
            own = found.setdefault(step.instruction, {})
            for one in step.attempts:
                if one.error is None and one.answer == kept.answer and one.worker in place:
                    own.setdefault(one.worker, (one, float(record.success)))
    shape = len(found), len(workers)
    right, cost, refused = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    replies: list[list[str | None]] = [[None] * len(workers) for _ in found]
    for row, own in enumerate(found.values()):
        for name, (one, success) in own.items():
            column = place[name]
            right[row, column], cost[row, column], replies[row][column] = success, one.cost_usd, one.answer
            refused[row, column] = one.passed_check is False or one.truncated
    return fit_answer_judge(list(found), (WHOLE,) * len(found), replies, Verdicts(right, cost), refused)


def step_attempts(records: Sequence[ExecutionRecord], cards: Sequence[WorkerCard]) -> StepAttempts:
    """What the executions that were judged say of each worker of a pool on each subtask.

    Executions in which others were asked, too, are left out. An answer that passed its own check and was part of a
    failed execution was right with the probability that `credit_steps` gives.
    """
    place = {card.name: number for number, card in enumerate(cards)}
    judged = [record for record in records if record.outcome == "scored" and _known(record, place)]
    rows: dict[tuple[str, str], int] = {}
    planned: list[tuple[PlannedStep, ...]] = []
    attempts: list[tuple[int, int, int, Attempt]] = []
    for number, record in enumerate(judged):
        steps = []
        for subtask in record.subtasks:
            key = subtask.instruction, type_of(subtask, record.instruction)
            step = rows.setdefault(key, len(rows))
            steps.append((step, tuple(place[name] for name in subtask.workers)))
            attempts += [(number, step, place[attempt.worker], attempt) for attempt in subtask.attempts]
        planned.append(tuple(steps))
    execution, row, worker = (np.array([one[i] for one in attempts], dtype=np.intp) for i in range(3))
    passed = np.array([attempt.accepted for *_, attempt in attempts], dtype=bool)
    succeeded = np.array([record.success for record in judged], dtype=bool)
    complete = np.array([all(any(a.accepted for a in s.attempts) for s in one.subtasks) for one in judged], dtype=bool)
    texts, types = ([key[place] for key in rows] for place in (0, 1))
    return StepAttempts(
        workers=tuple(place),
        texts=tuple(texts),
        task_types=tuple(types),
        groups=near_duplicate_groups(texts),
        prices=np.array([card.price_usd for card in cards]),
        planned=tuple(planned),
        succeeded=succeeded.astype(np.float64),
        spent_usd=np.array([record.cost for record in judged]),
        seconds=np.array([record.latency_ms / 1000 for record in judged]),
        execution=execution,
        row=row,
        worker=worker,
        passed=passed.astype(np.float64),
        right=_right(execution, row, worker, passed, succeeded, complete, texts, types),
        spending=np.array(
            [
                (one.cost_usd, one.latency_ms / 1000, float(one.prompt_tokens + one.completion_tokens))
                for *_, one in attempts
            ]
        ).reshape(-1, 3),
    )


def type_of(subtask: SubtaskRecord, instruction: str) -> str:
    """The subtask's type; a name of its own where it is the whole task."""
    return WHOLE if " ".join(subtask.instruction.split()) == " ".join(instruction.split()) else subtask.task_type


def _known(record: ExecutionRecord, place: dict[str, int]) -> bool:
    """Whether a plan was run, by workers of the pool alone."""
    asked = {attempt.worker for subtask in record.subtasks for attempt in subtask.attempts}
    return bool(record.subtasks) and (asked | {name for s in record.subtasks for name in s.workers}) <= place.keys()


def _right(
    execution: Rows,
    row: Rows,
    worker: Rows,
    passed: NDArray[np.bool_],
    succeeded: NDArray[np.bool_],
    complete: NDArray[np.bool_],
    texts: Sequence[str],
    types: Sequence[str],
) -> Values:
    """(attempts,) how probably each that passed was right; NaN where a step without an answer explains the failure.

    First by what words and type say of a worker, then by its record on the subtask beside that.
    """
    right = np.where(passed, np.nan, 0.0)
    telling = passed & complete[execution]
    if not telling.any():
        return right
    execution, row, worker = execution[telling], row[telling], worker[telling]
    right[telling] = credit_steps(texts, types, execution=execution, row=row, worker=worker, succeeded=succeeded)
    return right
