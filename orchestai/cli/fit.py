"""`orchestai fit`: from a pool and tasks with answers to what is served, and a verdict."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, load, run_async, say
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.estimate.attempts import Values
    from orchestai.estimate.pool_estimate import PoolEstimate
    from orchestai.evaluation.fitting import Selection
    from orchestai.execution.log import ExecutionLog
    from orchestai.execution.record import ExecutionRecord
    from orchestai.execution.runtime import Runtime
    from orchestai.tasks.task import Task

_PROBE_S = 90.0
"""Seconds in which a worker has to answer the first task."""
_TOGETHER = 8
"""Tasks that are given to all workers before time and money are looked at again."""


def fit(
    tasks: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of tasks with answers or tests.")],
    config: ConfigFile = CONFIG,
    servers: Annotated[
        list[str] | None, flag("server", "URL of a server whose models are the pool, as for init; repeatable.")
    ] = None,
    budget: Annotated[float, flag("budget", "Most to spend, in US dollars, earlier runs included.")] = 1.0,
    minutes: Annotated[float, flag("minutes", "Minutes after which no further tasks are asked.")] = 15.0,
    dearer: Annotated[bool, flag("dearer", "Serve what may cost more than the best single worker.")] = False,
    output_dir: Annotated[Path, flag("output_dir", "Folder for all that is made; repeat to go on.")] = Path("runs/fit"),
    overrides: Overrides = None,
) -> None:
    """Ask every worker whole tasks, and say which choice of workers the verdicts bear out, with how to serve it."""
    if servers:
        config = _config_of(servers, output_dir)
    loaded = load(config, overrides)
    run_async(run_fit(loaded, config, tasks, budget, minutes, dearer, output_dir, written=bool(servers)))


def _config_of(servers: Sequence[str], folder: Path) -> Path:
    """The configuration of servers, as `init` writes it, kept in the folder."""
    from orchestai.initial_config import find_models, write_config
    from orchestai.storage import artifacts

    path = folder / "config.yaml"
    if not path.exists():
        artifacts.write_text(path, write_config(run_async(find_models(servers, [], []))))
    return path


async def run_fit(
    config: Config,
    path: Path,
    tasks_path: Path,
    budget: float,
    minutes: float,
    dearer: bool,
    output_dir: Path,
    *,
    written: bool = False,
) -> None:
    """Look, collect, learn, choose and say so.

    Args:
        path: of the configuration.
        written: whether it was written for this.
    """
    import random

    from orchestai.doctor import unfinished
    from orchestai.execution.log import ExecutionLog
    from orchestai.execution.runtime import open_runtime
    from orchestai.rewards.scorers import refuse_unscorable
    from orchestai.storage.folder_lock import locked
    from orchestai.tasks import own_file

    given = own_file.read_as_called(tasks_path, config.tasks.columns, config.tasks.scorer)
    tasks = [task for task in given if task.scorer_name]
    if not tasks:
        raise UserError(
            f"{tasks_path}: none of {len(given)} tasks has an answer, so nobody can know which worker is right. With "
            "answers to twenty of them you would see which workers differ by 30 points, and ways of asking several "
            "could be compared; put them in a column `answer`"
        )
    if len(tasks) < len(given):
        say(f"left out: {len(given) - len(tasks)} tasks without an answer, which tell nothing of who is right")
    refuse_unscorable(tasks)
    tasks = random.Random(0).sample(tasks, len(tasks))
    say(*(f"{finding}" for finding in unfinished(config.workers) if not finding.there))
    ended = time.monotonic() + 60 * minutes
    with locked(output_dir, "fit"):
        there = await _reachable(config)
        log = ExecutionLog(output_dir / "execution_logs")
        _refuse_other_tasks(log, tasks)
        async with open_runtime(there.workers, config.execution, config.sandbox) as runtime:
            collection = _Collection(there, runtime, log, tasks, budget)
            workers = await collection.look()
            await collection.collect(workers, ended)
        serving = _only(config, workers)
        if serving.workers.pool.keys() != config.workers.pool.keys():
            path, written = output_dir / "fit.yaml", True
            _write(path, serving)
        _choose(serving, collection, workers, dearer, output_dir, path if written or path != CONFIG else None)


def _only(config: Config, names: Sequence[str]) -> Config:
    """The configuration with these workers alone."""
    workers = config.workers
    pool = {name: worker for name, worker in workers.pool.items() if name in names}
    cascade = tuple(name for name in workers.cascade if name in pool)
    return config.model_copy(update={"workers": workers.model_copy(update={"pool": pool, "cascade": cascade})})


def _write(path: Path, config: Config) -> None:
    from orchestai.config.section import as_yaml
    from orchestai.storage import artifacts

    artifacts.write_text(path, as_yaml(config.model_dump(mode="json", exclude_defaults=True)))


async def _reachable(config: Config) -> Config:
    """The configuration with the workers that can be had; the others are named.

    Raises:
        UserError: there is none.
    """
    from orchestai.sandbox.sandbox import Sandbox
    from orchestai.workers.pool import WorkerPool

    able = []
    with Sandbox.from_config(config.sandbox, when_needed=True) as sandbox:
        for name in config.workers.pool:
            try:
                async with WorkerPool.from_config(_only(config, [name]).workers, sandbox) as pool:
                    problems = await pool.problems()
            except UserError as error:
                problems = [str(error)]
            if problems:
                say(f"{name}: cannot be had: {problems[0]}")
            else:
                able.append(name)
    if not able:
        raise UserError("no worker of the pool can be had; see above, and `orchestai doctor`")
    return _only(config, able)


def _refuse_other_tasks(log: ExecutionLog, tasks: Sequence[Task]) -> None:
    texts = {task.task_id: task.instruction for task in tasks}
    if any(texts.get(record.task_id, record.instruction) != record.instruction for record in log.read().records):
        raise UserError(f"{log.directory}: holds runs of other tasks under the same ids; choose another --output_dir")


class _Collection:
    """Every worker on the same whole tasks, within a budget; what is logged is not asked again."""

    def __init__(
        self, config: Config, runtime: Runtime, log: ExecutionLog, tasks: Sequence[Task], budget: float
    ) -> None:
        from orchestai.storage.artifacts import fingerprint

        self.log = log
        self.tasks = tasks
        self._config, self._runtime, self._budget = config, runtime, budget
        models, pool, scorer = config.workers.models, config.workers.pool, config.tasks.scorer
        self.planners = {
            name: f"whole:{name}/{fingerprint([repr(worker), repr(models.get(worker.model or '')), scorer])[:8]}"
            for name, worker in pool.items()
        }
        """What the log calls each worker, by its settings and the scorer, so that after changes it is asked anew."""

    def records(self, name: str) -> dict[str, ExecutionRecord]:
        """The last judged execution of each task by a worker."""
        read = self.log.read().records
        judged = (one for one in read if one.planner == self.planners[name] and one.outcome == "scored")
        return {record.task_id: record for record in judged}

    async def look(self) -> list[str]:
        """Ask each worker one task; the names of those that answer within the budget. The others are named."""
        task = min(self.tasks, key=lambda one: len(one.instruction))
        self.tasks = [task, *(one for one in self.tasks if one is not task)]
        able: list[str] = []
        left = self._budget - self._spent()
        for name in self.planners:
            known = task.task_id in self.records(name)
            if not known and (worst := self._worst(task, name)) > left:
                say(f"{name}: left out: a task may cost up to {worst:.3g} USD, and {left:.3g} of the budget are left")
                continue
            left -= 0 if known else worst
            able.append(name)
        outcomes = await asyncio.gather(*(self._ask(name, [task], _PROBE_S) for name in able))
        for name, error in zip(list(able), outcomes, strict=True):
            record = self.records(name).get(task.task_id)
            if record is None:
                say(f"{name}: left out: {error or 'it answered nothing'}")
                able.remove(name)
            else:
                said = record.error or ("right" if record.success else "wrong")
                say(f"{name}: {said[:100]}, {record.cost:.3g} USD, {record.latency_ms / 1000:.1f} s")
        if not able:
            raise UserError("no worker answered the first task; see above")
        return able

    async def collect(self, workers: Sequence[str], ended: float) -> None:
        """Ask the workers all tasks, or as many as the budget and the time allow."""
        from orchestai.progress import open_progress

        known = {name: self.records(name) for name in workers}
        tried = [record.cost for records in known.values() for record in records.values()]
        each = sum(tried) / max(len(tried), 1) * len(workers)
        say(f"about {each * len(self.tasks):.3g} USD for {len(self.tasks)} tasks by {len(workers)} workers")
        left = list(self.tasks)
        with open_progress("fit") as bar:
            line = bar.add_task("fit", total=len(left), status="")
            while left and time.monotonic() < ended:
                some = left[:_TOGETHER]
                worst = [
                    sum(self._worst(task, name) for name in workers if task.task_id not in known[name]) for task in some
                ]
                while some and sum(worst[: len(some)]) > self._budget - self._spent():
                    some.pop()
                if not some:
                    break
                left = left[len(some) :]
                await asyncio.gather(*(self._ask(name, some, max(ended - time.monotonic(), 1.0)) for name in workers))
                bar.update(line, completed=len(self.tasks) - len(left), status=f"{self._spent():.4f} USD")
        if left:
            why = "time" if time.monotonic() >= ended else "budget"
            say(f"the {why} ended before {len(left)} of {len(self.tasks)} tasks were asked; repeat with more to go on")
            self.tasks = self.tasks[: -len(left)]

    async def _ask(self, name: str, tasks: Sequence[Task], seconds: float) -> str:
        """Give tasks to a worker, and say why it has not answered, if it has not."""
        from orchestai.data.collect import Collection, collect
        from orchestai.errors import InfrastructureError
        from orchestai.planner.baselines import WholePlanner

        planner, names = self.planners[name], self._runtime.pool.names
        asked = Collection(tasks, len(tasks), planner, names, unscorable_limit=1.0)
        work = collect(asked, lambda _: WholePlanner(name), self._runtime.executor, self.log)
        try:
            state = await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError:
            return f"no answer within {seconds:.0f} s"
        except (InfrastructureError, UserError) as error:
            return str(error)
        return next((str(reason.reason) for reason, _ in state.outcomes.most_common()), "")

    def _worst(self, task: Task, name: str) -> float:
        from orchestai.execution.contract.run_budget import Bounder
        from orchestai.planner.baselines import whole_task

        workflow = whole_task(task)
        bounder = Bounder(task, workflow, self._runtime.pool, self._config.execution.assembler)
        return bounder.bounds({workflow.subtasks[0].id: (name,)}).cost_usd

    def _spent(self) -> float:
        return sum(record.cost for record in self.log.read().records)


def _choose(
    config: Config, collection: _Collection, workers: Sequence[str], dearer: bool, folder: Path, path: Path | None
) -> None:
    """Choose what to serve by what was collected, write its checkpoint, and say so."""
    import numpy as np

    from orchestai.data.near_duplicates import near_duplicate_groups
    from orchestai.data.prepare import fit_estimate
    from orchestai.estimate.answers import compare_replies
    from orchestai.estimate.attempts import WHOLE
    from orchestai.evaluation import fitting
    from orchestai.evaluation.fitting import NEAREST
    from orchestai.planner.slots.text_encoder import query_features
    from orchestai.progress import console
    from orchestai.storage import artifacts

    names = [collection.planners[name] for name in workers]
    read = collection.log.read().records
    replies, verdicts, refused = fitting.outcomes_of(read, collection.tasks, names)
    counts = np.isfinite(verdicts.right).sum(axis=0)
    won = np.nansum(verdicts.right, axis=0)
    often = np.flatnonzero((counts >= 0.8 * counts.max()) & ((won > 0) | ~won.any())).tolist()
    for worker in np.setdiff1d(np.arange(len(workers)), often).tolist():
        say(f"{workers[worker]}: left out: right on {won[worker]:g} of {counts[worker]} tasks judged")
    _say_unread(workers, collection.tasks, replies, verdicts.right, config)
    if not np.nansum(verdicts.cost_usd):
        say("nobody has a price, so what is served is chosen as if every call were free")
    rows = np.flatnonzero(np.isfinite(verdicts.right[:, often]).all(axis=1))
    if not rows.size:
        raise UserError("no task was judged for all workers; see above")
    kept, tasks = [workers[worker] for worker in often], [collection.tasks[row] for row in rows.tolist()]
    texts = [task.instruction for task in tasks]
    truth = fitting.Verdicts(verdicts.right[np.ix_(rows, often)], np.nan_to_num(verdicts.cost_usd[np.ix_(rows, often)]))
    said = [[replies[row][worker] for worker in often] for row in rows.tolist()]
    comparator, answers = compare_replies(
        texts, (WHOLE,) * len(texts), said, truth.right, np.arange(len(rows)), refused[np.ix_(rows, often)]
    )
    features = query_features(texts, config.workers.models_dir)
    with console.status("choosing") as status:
        found = fitting.candidates(answers, truth, features, dearer=True)
        selection, other = (fitting.pick(found, dearer=allowed) for allowed in (dearer, True))
        evidence = fitting.cross_validate(
            answers, truth, features, near_duplicate_groups(texts), dearer=dearer, progress=status.update
        )
        compared = _only(config, kept)
        own = {collection.planners[name] for name in kept}
        asked = {task.task_id for task in tasks}
        records = [record for record in read if record.planner in own and record.task_id in asked]
        estimate = fit_estimate(records, compared)
    lines = fitting.verdict(kept, answers, truth, selection, evidence, other)
    if len(kept) < len(config.workers.pool):
        path = folder / "fit.yaml"
        _write(path, compared)
    checkpoints = {name: f"whole:{name}" for name in kept}
    planner = checkpoints[kept[selection.worker]]
    if estimate is not None:
        others = [[one for one in found if one.kind == kind] for kind in (fitting.JUDGED, fitting.CASCADE, NEAREST)]
        for one in [*(fitting.likeliest(some, dearer=True) for some in others if some), selection]:
            if one.kind != fitting.SINGLE:
                checkpoints[one.kind] = str(folder / f"{one.kind}.pth")
                judge = None if one.kind == NEAREST else fitting.judge_of(one, answers, comparator)
                _save(compared, replace(estimate, judge=judge), one, texts, Path(checkpoints[one.kind]))
        planner = checkpoints.get(selection.kind, planner)
    how = "" if path is None else f"--config {path} "
    lines.append(
        f'Serve it: orchestai serve {how}--checkpoint {planner}  (or: orchestai run {how}--checkpoint {planner} "...")'
    )
    facts = {"workers": kept, "tasks": len(tasks), "served": selection.kind, "lines": lines}
    gain = None if evidence is None else evidence.gain(selection).to_dict()
    facts |= {"gain": gain, "checkpoint": planner, "checkpoints": checkpoints}
    artifacts.write_json(folder / "fit.json", facts)
    print("\n".join(lines))


def _say_unread(
    workers: Sequence[str], tasks: Sequence[Task], replies: list[list[str | None]], right: Values, config: Config
) -> None:
    """Say whose answers are wrong for words around the right one alone."""
    from orchestai.outcome import Scored
    from orchestai.rewards.scorers import contains_reward_fn
    from orchestai.sandbox import Sandbox
    from orchestai.tasks.task import EXACT

    with Sandbox.from_config(config.sandbox, when_needed=True) as sandbox:
        unread = Counter(
            name
            for task, said, own in zip(tasks, replies, right.tolist(), strict=True)
            for name, reply, verdict in zip(workers, said, own, strict=True)
            if task.scorer_name == EXACT and verdict == 0 and reply
            if contains_reward_fn(task, reply, sandbox) == Scored(1.0)
        )
    if unread:
        counted = ", ".join(f"{count} by {name}" for name, count in unread.items())
        say(
            f"counted as wrong, though the right answer stands among other words: {counted}; "
            "if that is right enough, repeat with tasks.scorer=contains"
        )


def _save(config: Config, estimate: PoolEstimate, selection: Selection, texts: Sequence[str], path: Path) -> None:
    from orchestai.planner.checkpoint import NEAREST, estimate_state, save_router
    from orchestai.planner.files import STATE_KEY
    from orchestai.tasks.splits import SeenTasks

    facts = {STATE_KEY: estimate_state(estimate), NEAREST: selection.kind == NEAREST}
    save_router(path, config, **facts, **SeenTasks.of(texts).facts())
