"""From served runs with feedback to a candidate that was compared with the planner that serves."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestai.answering import AS_GIVEN
from orchestai.config import Config, TasksConfig, WorkersConfig
from orchestai.data.prepare import prepare
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval, bootstrap_mean, mean, number, paired_difference
from orchestai.evaluation.systems.baselines import WHOLE
from orchestai.evaluation.systems.runner import Runner, SystemRow
from orchestai.evaluation.systems.sample_k import sample_k, strongest_sampler
from orchestai.execution.log import read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.checkpoint import reference_of, seen_by
from orchestai.planner.serving import open_planner
from orchestai.rewards.scorers import judge
from orchestai.sandbox import Sandbox
from orchestai.serving.improvement.registry import Lineage, Measured, PlannerRegistry, Trial
from orchestai.serving.store import Feedback
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.records import has_tests
from orchestai.tasks.splits import divide, task_hash
from orchestai.tasks.task import UNIT_TESTS, Task
from orchestai.text.syntax import parse_python
from orchestai.training.rl.setup import Measurement, open_reward
from orchestai.training.rl.setup import train as train_phase2
from orchestai.training.supervised.train import train as train_phase1

SUITE = "served"
_TOGETHER = 32


@dataclass(frozen=True)
class JudgedRuns:
    """What can be learned from served runs.

    Attributes:
        records: their lines of the log, now with outcomes; one per run, in the parts of `tasks.*_fraction`.
        tasks: what was asked, once each, where other answers can be judged too: by tests, or by the right answer, and
            the instruction is all that workers read.
        left_out: reason -> number of runs.
    """

    records: list[ExecutionRecord] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def part(self, name: str) -> list[Task]:
        return [task for task in self.tasks if task.split == name]


async def judged_runs(
    records: Iterable[ExecutionRecord], said: Mapping[str, Feedback], settings: TasksConfig, sandbox: Sandbox
) -> JudgedRuns:
    """Join the lines of the log with feedback.

    A score is taken as it was given; else the answer is judged by the tests, or compared with the right one.

    Args:
        said: by run id.
    """
    found = JudgedRuns()
    served = _served(records, said, found.left_out)
    parts = divide([record.instruction for record, _ in served], settings)
    tasks: dict[str, Task] = {}
    slots = asyncio.Semaphore(_TOGETHER)

    async def outcome_of(record: ExecutionRecord, feedback: Feedback, task: Task | None) -> Outcome:
        if feedback.score is not None or task is None:
            return Scored(feedback.score or 0.0)
        async with slots:
            return (await judge(task, record.answer, sandbox)).outcome

    judging = []
    for (record, feedback), part in zip(served, parts, strict=True):
        try:
            task = task_of(record.instruction, feedback, part, settings)
        except (SyntaxError, ValueError) as error:
            found.left_out[f"its tests cannot be read: {type(error).__name__}"] += 1
            continue
        if task is not None and not record.in_dialogue:
            tasks[task.task_id] = task
        judging.append((record, part, outcome_of(record, feedback, task)))
    outcomes = await asyncio.gather(*(outcome for *_, outcome in judging))
    for (record, part, _), outcome in zip(judging, outcomes, strict=True):
        if isinstance(outcome, Unscorable):
            found.left_out["its answer could not be judged"] += 1
        else:
            task_id = task_hash(record.instruction)
            said_of_it = {"outcome": "scored", "success": outcome.value >= 1, "score": outcome.value}
            found.records.append(
                record.model_copy(update={"suite": SUITE, "task_id": task_id, "split": part, **said_of_it})
            )
    found.tasks.extend(tasks.values())
    return found


def task_of(instruction: str, feedback: Feedback, part: str, settings: TasksConfig) -> Task | None:
    """What was asked, with what judges answers to it; None where only this one answer was scored.

    Raises:
        SyntaxError, ValueError: the tests cannot be read.
    """
    about: dict[str, Any] = {"suite": SUITE, "split": part, "instruct_prompt": instruction}
    if feedback.tests:
        source = feedback.tests
        tests = source if has_tests(source) else as_test_case(parse_python(source).body)
        return Task(task_id=task_hash(instruction), scorer=UNIT_TESTS, test=tests, **about)
    if feedback.answer:
        scorer = "" if settings.scorer == UNIT_TESTS else settings.scorer
        return Task(task_id=task_hash(instruction), answers=(feedback.answer,), scorer=scorer, **about)
    return None


def _served(
    records: Iterable[ExecutionRecord], said: Mapping[str, Feedback], left_out: Counter[str]
) -> list[tuple[ExecutionRecord, Feedback]]:
    """Runs of planners that ended, with feedback."""
    kept: list[tuple[ExecutionRecord, Feedback]] = []
    without_line = set(said)
    for record in records:
        if record.outcome != "unjudged" or record.receipt is None:
            continue
        without_line.discard(record.receipt.run_id)
        feedback = said.get(record.receipt.run_id)
        if feedback is None:
            left_out["nobody said anything of it"] += 1
        elif feedback.score is None and not (feedback.answer or feedback.tests):
            left_out["what was said of it was not kept (serving.redact)"] += 1
        elif not record.instruction:
            left_out["its words are not in the log (--log metadata)"] += 1
        elif record.receipt.planner == AS_GIVEN:
            left_out["it resumed a step of another run"] += 1
        elif any(attempt.tool_calls for subtask in record.subtasks for attempt in subtask.attempts):
            left_out["it called a client's tool before it answered"] += 1
        elif not record.subtasks or (record.receipt.status == "partial" and record.receipt.does_as_shown is None):
            left_out["it was interrupted"] += 1
        else:
            kept.append((record, feedback))
    if without_line:
        left_out["it has no line in this log"] = len(without_line)
    return kept


async def compare(config: Config, tasks: Sequence[Task], incumbent: str, candidate: str, runtime: Runtime) -> Trial:
    """Replay tasks with both planners, as they would be served.

    Args:
        tasks: that neither has learned from.
        incumbent, candidate: checkpoints.
    """
    execute, concurrency = runtime.executor.execute, config.execution.concurrency
    measurement = Measurement(config.workers, tasks, execute, concurrency)
    reward = await open_reward(config.rewards, config.training.phase2_rl, reference_of(incumbent), measurement)
    runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
    rows = []
    for checkpoint in (incumbent, candidate):
        planner = await open_planner(checkpoint, config.planner, config.workers, runtime.pool)
        rows.append(await runner.row(checkpoint, planner, lambda: None))
        runner.refuse_if_broken()
    before, after = rows
    success = after.values("success")
    try:
        sampling, how = await repeated_asking(config, runner, mean(after.values("cost_usd")))
    except UserError as error:  # which is no reason to lose the candidate
        sampling, how = None, f"repeated asking could not be measured: {error}"
    over_sampling = None if sampling is None else paired_difference(success, sampling.values("success"))
    return Trial(
        incumbent=_measured(bootstrap_mean(before.values("success"))),
        candidate=_measured(bootstrap_mean(success)),
        incumbent_usd=number(mean(before.values("cost_usd"))),
        candidate_usd=number(mean(after.values("cost_usd"))),
        difference=_measured(paired_difference(success, before.values("success"))),
        sampling=None if sampling is None else _measured(bootstrap_mean(sampling.values("success"))),
        sampling_usd=None if sampling is None else number(mean(sampling.values("cost_usd"))),
        over_sampling=None if over_sampling is None else _measured(over_sampling),
        sampling_how=how,
    )


async def repeated_asking(config: Config, runner: Runner, budget_usd: float) -> tuple[SystemRow | None, str]:
    """The strongest sampling worker asked again and again, for a mean cost of `budget_usd` US dollars a task.

    Returns:
        The row, or None; and how it came about, or why there is none.
    """
    name = strongest_sampler(config.workers)
    if name is None:
        return None, "no worker of workers.cascade samples, so nothing could be asked repeatedly"

    @asynccontextmanager
    async def other_workers(workers: WorkersConfig) -> AsyncIterator[JudgingExecutor]:
        async with open_runtime(workers, config.execution, config.sandbox) as runtime:
            yield runtime.executor

    whole = await runner.row(WHOLE + name, WholePlanner(name), lambda: None)
    found = await sample_k(config.workers, whole, budget_usd, runner, other_workers, lambda row: lambda: None)
    if found is None:
        return None, f"what {name} costs is not known, so nobody knows how often it may be asked"
    return found.row, f"{found.row.name}: {found.worker} asked {found.k} times"


def _measured(interval: Interval) -> Measured:
    return Measured.model_validate(interval.to_dict())


FEWEST_TASKS = 24
"""To learn from by reward; of fewer, an update would be noise."""


async def train_candidate(
    config: Config,
    judged: JudgedRuns,
    others: Sequence[ExecutionRecord],
    incumbent: Path,
    folder: Path,
    *,
    seed_data: Path | None = None,
    phase2: bool = True,
) -> tuple[Path, dict[str, Any]]:
    """Train a candidate; what it was trained on, and how, is kept in `folder`.

    Phase 1 goes on from the incumbent with the plans of served runs that succeeded. Phase 2 follows where there are
    enough tasks whose answers can be judged; where nothing succeeded, it begins with the incumbent.

    Args:
        others: executions that were collected, not served.
        seed_data: the training file of the first planner, which is repeated so that nothing of it is forgotten.

    Returns:
        The checkpoint, and counts of what it was trained on.
    """
    log, data = folder / "judged.jsonl", folder / "training_data.json"
    artifacts.write_text(log, "".join(record.model_dump_json() + "\n" for record in [*judged.records, *others]))
    tasks, held_out = judged.part("train"), judged.part("validation")
    rewarded = phase2 and len(tasks) >= FEWEST_TASKS and bool(held_out)
    succeeded = {record.split for record in judged.records if record.success}
    checkpoint, examples = incumbent, {"train": 0, "validation": 0, "seed": 0}
    if others or succeeded >= {"train", "validation"} or not rewarded:
        report = prepare(log, _for_phase1(config, seed_data), data)
        train_phase1(_for_phase1(config, seed_data), data=data, output_dir=folder / "phase1", start=incumbent)
        checkpoint = folder / "phase1" / "phase1_best.pth"
        examples = {"train": report.train, "validation": report.validation, "seed": report.mixture}
    learned: dict[str, Any] = {
        "runs": len(judged.records),
        "succeeded": sum(record.success for record in judged.records),
        "left_out": dict(judged.left_out),
        "examples": examples,
        "phase2_tasks": 0,
    }
    if rewarded:
        path = folder / "tasks.jsonl"
        artifacts.write_text(path, "".join(_line(task) for task in [*tasks, *held_out]))
        served = config.tasks.model_copy(update={"suite": "file", "path": str(path.resolve()), "split": "train"})
        summary = await train_phase2(
            config.model_copy(update={"tasks": served}), checkpoint=checkpoint, output_dir=folder / "phase2"
        )
        summary.exit_if_stopped()
        checkpoint = folder / "phase2" / "phase2_best.pth"
        learned["phase2_tasks"] = len(tasks)
    return checkpoint, learned


def _for_phase1(config: Config, seed_data: Path | None) -> Config:
    """Only runs that succeeded are imitated: nobody knows whether a plan that failed was split well."""
    settings = config.training.phase1_supervised
    mixture = () if seed_data is None else (str(seed_data),)
    changed = settings.model_copy(update={"keep": "success", "mixture": mixture, "mixture_augmentations": 0})
    return config.model_copy(update={"training": config.training.model_copy(update={"phase1_supervised": changed})})


def _line(task: Task) -> str:
    row: dict[str, Any] = {"task_id": task.task_id, "instruction": task.instruction, "split": task.split}
    row |= {"tests": task.test} if task.test else {"answers": list(task.answers)}
    if task.scorer:
        row["scorer"] = task.scorer
    return json.dumps(row, ensure_ascii=False) + "\n"


_FEWEST_TASKS = 10
"""On fewer that were kept aside no difference could be told from chance."""


@dataclass(frozen=True)
class Improvement:
    """What an improvement is made from.

    Attributes:
        logs: the execution log of the servers; lines that were collected are learned from, too.
        said: feedback by run id.
        registry: of the planner that serves.
        work: folder for what training writes; a run that was interrupted begins anew in another.
        seed_data: the training file of the first planner.
        phase2: whether to train by reward, which may ask workers that are paid for.
    """

    config: Config
    logs: Path
    said: Mapping[str, Feedback]
    registry: PlannerRegistry
    work: Path
    seed_data: Path | None = None
    phase2: bool = True

    async def run(self) -> Lineage:
        """Train a candidate from the current version, compare it, and keep both in the registry as its next version."""
        current = self.registry.current
        if current is None:
            raise UserError(f"{self.registry.folder}: no planner serves from here; name one with --checkpoint")
        incumbent = self.registry.checkpoint(current.version)
        config, records = self.config, read_log(self.logs).records
        with locked(self.work, "improvement"):
            async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
                judged = await judged_runs(records, self.said, config.tasks, runtime.sandbox)
            aside = self._unseen(judged.part("test"), incumbent, judged.left_out)
            candidate, learned = await train_candidate(
                config,
                judged,
                [record for record in records if record.outcome == "scored"],
                incumbent,
                self.work,
                seed_data=self.seed_data,
                phase2=self.phase2,
            )
            aside = self._unseen(
                aside, candidate, judged.left_out
            )  # it may have seen them in lines that were collected since
            async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
                trial = await compare(config, aside, str(incumbent), str(candidate), runtime)
        return self.registry.add(candidate, parent=current.version, learned=learned, trial=trial)

    def _unseen(self, tasks: Sequence[Task], checkpoint: Path, left_out: Mapping[str, int]) -> list[Task]:
        """Those that a checkpoint has not learned from.

        Args:
            left_out: reason -> number of served runs, to say why there are not more.
        """
        seen = seen_by(checkpoint)
        unseen = [task for task in tasks if task.instruction not in seen]
        if len(unseen) < _FEWEST_TASKS:
            reasons = "; ".join(f"{count}, {reason}" for reason, count in left_out.items())
            raise UserError(
                f"{self.logs}: {len(unseen)} served tasks with tests or a right answer are kept aside to compare "
                f"planners on, and {_FEWEST_TASKS} are needed; gather more feedback"
                + (f" (runs left out: {reasons})" if reasons else "")
            )
        return unseen
