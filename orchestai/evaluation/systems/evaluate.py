"""Compares planners with every baseline on the same tasks, by paired differences."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.evaluation.held_out import HeldOut
from orchestai.evaluation.statistics import Interval, mean, paired_difference
from orchestai.evaluation.systems import baselines, plot
from orchestai.evaluation.systems.baselines import ORACLE, STATIC_MIX, Embed, trials
from orchestai.evaluation.systems.oracle import Hindsight, best_of
from orchestai.evaluation.systems.preference_sweep import LEAST, PREFERENCES, PreferenceSweep, sweep_preferences
from orchestai.evaluation.systems.runner import RowSummary, Runner, SystemRow, rank_invalid, summarize
from orchestai.evaluation.systems.sample_k import OpenExecutor, sample_k, strongest_sampler
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.reward import RewardForm
from orchestai.planner.base import Plan, Planner
from orchestai.planner.forecast import PoolForecaster
from orchestai.planner.plan_metrics import compare
from orchestai.planner.serving import followed, with_last_resort
from orchestai.planner.slots.text_encoder import TextEncoder, UnreadableTextError
from orchestai.progress import open_progress
from orchestai.storage import artifacts
from orchestai.tasks.splits import task_hash
from orchestai.tasks.task import Task

_COMPARED = ("reward", "success", "cost_usd")


@dataclass(frozen=True)
class Difference:
    """`of` minus `to`, over the tasks on which both were judged, with 95 % bootstrap intervals."""

    of: str
    to: str
    reward: Interval
    success: Interval
    cost_usd: Interval

    def to_dict(self) -> dict[str, Any]:
        figures = {key: getattr(self, key).to_dict() for key in _COMPARED}
        return {"of": self.of, "to": self.to, **figures}


def headline(planners: Sequence[str], summaries: Sequence[RowSummary]) -> list[RowSummary]:
    """At most ten rows, the best first: the oracle, the trained planners, and what they have to beat.

    Of cascades, and of single workers however they are asked, only the one that solves most is among them.
    """
    known = [summary for summary in summaries if summary.success is not None]
    cascades = [one for one in known if one.name in (baselines.CASCADE, baselines.WHOLE_CASCADE)]
    singles = [one for one in known if one.name.startswith((baselines.WHOLE, baselines.STEPS)) and one not in cascades]
    best = [max(some, key=lambda one: one.success or 0.0) for some in (cascades, singles) if some]
    names = {
        *(baselines.ORACLE, *planners[-2:], baselines.LOOKUP, baselines.NEAREST, baselines.STATIC_MIX),
        *(baselines.SAMPLE_K, baselines.SELF_CONSISTENCY, baselines.CHEAPEST),
        *(one.name for one in best),
    }
    shown = [summary for summary in summaries if summary.name in names]
    return sorted(shown, key=lambda one: -(one.success or 0.0))


def static_mix(rows: Sequence[SystemRow], budget_usd: float) -> SystemRow | None:
    """What is to be expected where a coin is tossed between two rows for each task, at this mean cost.

    They are the two that solve most so, in hindsight, on the tasks themselves. Where every row is cheaper, or none is,
    it is the best or the cheapest alone; None without rows whose cost and success are known.
    """
    known = [(mean(row.values("cost_usd")), mean(row.values("success")), row) for row in rows]
    known = [one for one in known if math.isfinite(one[0]) and math.isfinite(one[1])]
    if not known:
        return None
    cheap = [one for one in known if one[0] <= budget_usd] or [min(known, key=lambda one: one[0])]
    best = max(cheap, key=lambda one: one[1])
    pairs = [(best, best, 0.0)]
    pairs += [
        (one, other, min(max((budget_usd - one[0]) / (other[0] - one[0]), 0.0), 1.0) if other[0] > one[0] else 0.0)
        for one in cheap
        for other in known
        if other[0] > budget_usd
    ]
    one, other, share = max(pairs, key=lambda pair: (1 - pair[2]) * pair[0][1] + pair[2] * pair[1][1])
    mixed = []
    for first, second in zip(one[2].results, other[2].results, strict=True):
        means: dict[str, Any] = {
            field: (1 - share) * float(getattr(first, field)) + share * float(getattr(second, field))
            for field in ("success", "reward", "cost_usd", "latency_ms")
        }
        likelier = first if share < 0.5 else second
        mixed.append(replace(likelier, **means, reason=first.reason or second.reason))
    return SystemRow(STATIC_MIX, tuple(mixed))


SCHEMA_VERSION = 1
AS_SERVED = ", as served"
"""Behind a planner's name: its plans, and others where it is not sure."""
_OTHER_ROWS = 12
"""Beside those of planners, single workers and preferences: cascades, lookups, samples and the oracle."""


@dataclass(frozen=True)
class Evaluation:
    """The figures of one evaluation.

    Attributes:
        planners: names, in the order given; the last is the one that is spoken of.
        differences: of each planner to every row before it or beside it.
        oracle_shares: mean reward of each planner over the oracle's.
        decompositions: closeness of each planner's plans to the reference.
        facts: how the figures came about.
        remarks: what a reader must know about the tasks, a line each.
        preferences: the last planner at every preference; None where nobody knows what its workers achieve.
    """

    planners: tuple[str, ...]
    summaries: tuple[RowSummary, ...]
    differences: tuple[Difference, ...]
    oracle_shares: dict[str, float | None]
    decompositions: dict[str, dict[str, float]]
    facts: dict[str, Any]
    remarks: tuple[str, ...] = ()
    preferences: PreferenceSweep | None = None

    def on(self, held_out: HeldOut[Task]) -> Evaluation:
        """The same figures, saying which tasks they are on."""
        facts = {**self.facts, "held_out": held_out.to_dict(lambda task: task.task_id)}
        return replace(self, facts=facts, remarks=tuple(held_out.remarks()))

    @property
    def ours(self) -> str:
        return self.planners[-1]

    @property
    def conclusion(self) -> str:
        """Lines that sum it up, as sure as their intervals, after those on the tasks."""
        shown = headline(self.planners, self.summaries)
        ours = next(summary for summary in shown if summary.name == self.ours)
        said = list(self.remarks)
        if ours.success is None:
            said.append(f"{ours.name} could not be judged on any of the {ours.n} tasks.")
        else:
            low, high = (100 * (end or 0.0) for end in ours.success_ci)
            cost = "unknown cost" if ours.cost_usd is None else f"{ours.cost_usd:.2g} USD"
            share = self.oracle_shares[self.ours]
            of_oracle = "" if share is None else f", with {share:.0%} of the oracle's reward"
            said.append(
                f"{ours.name} solves {100 * ours.success:.1f} % [{low:.1f}, {high:.1f}] of {ours.n} {ours.suite} tasks "
                f"at {cost} a task{of_oracle}."
            )
            others = {summary.name for summary in shown} - {ORACLE}
            compared = [
                f"{100 * gap.mean:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] {d.to}"
                for d in self.differences
                if d.of == ours.name and d.to in others and (gap := d.success).n
            ]
            if compared:
                said.append(f"Points of success above others (paired, 95 % intervals): {'; '.join(compared)}.")
        return "\n".join([*said, *([] if self.preferences is None else [self.preferences.remark()])])

    def table(self) -> Table:
        """The rows that matter most; the last column is the reward of the last planner minus the row's, paired.

        The share of tasks that could not be judged is shown where there are any. All rows are in `to_dict`.
        """
        first, shown = self.summaries[0], headline(self.planners, self.summaries)
        against = {d.to: d for d in self.differences if d.of == self.ours}
        lost = any(summary.unscorable for summary in shown)
        table = Table(
            title=escape(f"{first.n} {first.suite} tasks; {len(shown)} of {len(self.summaries)} rows"),
            title_justify="left",
            header_style="bold",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        table.add_column("row", no_wrap=True)
        table.add_column("solved % [95 %]", justify="right")
        for heading in ("reward", "USD/1000", "ms", "valid %", *(["unscored %"] if lost else [])):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column(escape(f"reward, {self.ours} minus it"), justify="right")
        for one in shown:
            compared = against.get(one.name)
            figures = [(value, 100, 1) for value in (one.success, *one.success_ci)]
            figures += [(one.reward, 1, 2), (one.cost_usd, 1000, 4), (one.latency_ms, 1, 0), (one.validity, 100, 0)]
            figures += [(one.unscorable, 100, 0)] if lost else []
            written = ["-" if value is None else f"{value * scale:.{digits}f}" for value, scale, digits in figures]
            solved, low, high, *others = written
            table.add_row(
                escape(one.name),
                f"{solved} [{low}, {high}]",
                *others,
                compared.reward.signed() if compared else "",
                style="bold" if one.name == self.ours else None,
            )
        return table

    def write(self, path: Path | str) -> None:
        """Write the figures to `path` (JSON), and beside it the plot (.png) and the table with conclusion (.txt)."""
        path = Path(path)
        artifacts.write_json(path, self.to_dict())
        curve = () if self.preferences is None else self.preferences.curve
        plot.draw(path.with_suffix(".png"), self.planners, self.summaries, curve)
        page = Console(width=200, file=io.StringIO(), record=True)
        page.print(self.table())
        artifacts.write_text(path.with_suffix(".txt"), f"{page.export_text()}\n{self.conclusion}\n")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "rows": [asdict(summary) for summary in self.summaries],
            "differences": [compared.to_dict() for compared in self.differences],
            "oracle_shares": self.oracle_shares,
            "decompositions": self.decompositions,
            "conclusion": self.conclusion.split("\n"),
            "preferences": None if self.preferences is None else self.preferences.to_dict(),
            **self.facts,
        }


@dataclass(frozen=True)
class Logged:
    """What the baselines learn from that count: logged executions of other tasks, and what reads their subtasks."""

    embed: Embed
    records: Sequence[ExecutionRecord] = ()


async def evaluate(
    config: Config,
    planners: Mapping[str, Planner],
    runner: Runner,
    reward: RewardForm,
    logged: Logged,
    *,
    open_executor: OpenExecutor | None = None,
    whole: Planner | None = None,
    forecaster: PoolForecaster | None = None,
    execution_log: ExecutionLog | None = None,
    shown: bool = False,
) -> Evaluation:
    """Run the planners and all baselines on the runner's tasks.

    Args:
        planners: by row name; the first one's decompositions are given to the baselines that choose workers alone, the
            last one is compared with every other row.
        open_executor: for sample-k-and-check, whose worker is not in the pool; without it that row is left out.
        whole: plans whole tasks where the last planner is not sure (`planner.min_confidence`), which is a further row.
        forecaster: what is known of the pool, by which the last planner is swept through all preferences.
        execution_log: gets how the last planner's plans ran, and those with the right workers in hindsight.
        shown: whether progress is.
    """
    tasks = runner.tasks
    if not tasks or not planners:
        raise UserError("evaluate: no tasks or no planners; choose another tasks.eval_split, or pass a checkpoint")
    evaluated = {task_hash(task.instruction) for task in tasks}  # which the baselines must not have seen
    known = [record for record in logged.records if task_hash(record.instruction) not in evaluated]
    names = list(config.workers.pool)
    log = [t for t in trials(known, reward) if t.worker in names]
    facts: dict[str, Any] = {}
    with open_progress("evaluate", disable=not shown) as progress:
        swept_rows = 0 if forecaster is None else len(PREFERENCES) + len(LEAST)
        bar = _Bar(progress, len(tasks), len(planners) + 2 * len(names) + swept_rows + _OTHER_ROWS)
        planned = {name: await asyncio.to_thread(planner.plan, tasks) for name, planner in planners.items()}
        rows = [await runner.run(name, some, bar.start(name)) for name, some in planned.items()]
        runner.refuse_if_broken()
        ours = list(planned)[-1]
        if whole is not None:  # the plans that `run` and `serve` follow, where they are not those of the planner alone
            kept = followed(ours, planned[ours], tasks, whole, config.planner.min_confidence)
            served = with_last_resort(kept, config.workers)
            if [plan.workflow for plan in served] != [plan.workflow for plan in planned[ours]]:
                rows.append(await runner.run(ours + AS_SERVED, served, bar.start(ours + AS_SERVED)))
                runner.refuse_if_broken()
        made = zip(tasks, rows[0].results, strict=True)
        plans = {task.task_id: Plan(result.workflow, raw_valid=result.raw_valid) for task, result in made}
        fixed = baselines.whole_rows(config.workers) | baselines.fixed_step_rows(config.workers, plans)
        others = baselines.other_rows(config.planner, config.workers, plans, log, logged.embed)
        if not any(task.reference for task in tasks):
            others.pop(baselines.REFERENCE, None)
        for name, planner in (fixed | others).items():
            rows.append(await runner.row(name, planner, bar.start(name)))
            runner.refuse_if_broken()
        budget_usd, sampled = mean(rows[len(planners) - 1].values("cost_usd")), None
        if open_executor is not None and (sampler := strongest_sampler(config.workers)) is not None:
            asked_whole = next(row for row in rows if row.name == baselines.WHOLE + sampler)
            sampled = await sample_k(config.workers, asked_whole, budget_usd, runner, open_executor, bar.start)
        if sampled is not None:
            rows.append(sampled.row)
            facts["sample_k"] = {"worker": sampled.worker, "k": sampled.k, "budget_usd": sampled.budget_usd}
        swept = None
        if forecaster is not None:
            longest = 1 + config.planner.max_fallbacks
            swept = await sweep_preferences(ours, planned[ours], forecaster, runner, rows, bar.start, longest=longest)
        hindsight = Hindsight(runner.executor, names, reward, config.execution.concurrency)
        found = await hindsight.plans(tasks, bar.start(baselines.ORACLE))
        informed = await runner.run("hindsight", found, bar.start(baselines.ORACLE))
    if execution_log is not None:
        runner.write(execution_log, {ours: planned[ours], baselines.ORACLE: found}, names)
    *rows, informed = rank_invalid([*rows, informed], reward.margin)
    oracle = best_of(baselines.ORACLE, [*rows, informed])
    trained = rows[: len(planners)]
    chosen_once = {*fixed, *([] if sampled is None else [sampled.row.name])}
    mixed = static_mix([row for row in rows if row.name in chosen_once], budget_usd)
    rows += [] if mixed is None else [mixed]
    rows.append(oracle)
    suite = tasks[0].suite
    summaries = tuple(summarize(row, suite) for row in rows)
    shown_rows = {one.name for one in headline(list(planners), summaries)}
    return Evaluation(
        planners=tuple(planners),
        summaries=summaries,
        **_compared(trained, rows, tasks),
        facts=facts
        | {
            "suite": suite,
            "decisions": {row.name: row.to_dict() for row in rows if row.name in shown_rows},
            "tasks_fingerprint": artifacts.fingerprint([task.model_dump(mode="json") for task in tasks]),
            "log_executions": len(known),
            "reward": asdict(reward),
            "config": config.model_dump(mode="json"),
            "versions": artifacts.versions(),
        },
        preferences=swept,
    )


def _compared(trained: Sequence[SystemRow], rows: Sequence[SystemRow], tasks: Sequence[Task]) -> dict[str, Any]:
    """How the trained planners compare with the rows, the last of which is the oracle, and with reference plans."""
    # The last trained planner, and it as served, to every other row; each trained one to those trained before it
    as_served = [row for row in rows if row.name.endswith(AS_SERVED)]
    pairs = [(trained[-1], row) for row in rows if row is not trained[-1] and row not in as_served]
    pairs += [(of, to) for i, of in enumerate(trained[:-1]) for to in trained[:i]]
    pairs += [(of, to) for of in as_served for to in rows if to is not of]
    differences = [
        Difference(of.name, to.name, *(paired_difference(of.values(key), to.values(key)) for key in _COMPARED))
        for of, to in pairs
    ]
    shares: dict[str, float | None] = {}
    closeness = {}
    known_steps = [(place, task.reference) for place, task in enumerate(tasks) if task.reference is not None]
    for row in trained:
        got, best = row.values("reward"), rows[-1].values("reward")
        both = ~np.isnan(got) & ~np.isnan(best)
        is_positive = both.any() and best[both].mean() > 0
        shares[row.name] = float(got[both].mean() / best[both].mean()) if is_positive else None
        graphs = [row.results[place].workflow for place, _ in known_steps]
        if (close := compare(graphs, [reference for _, reference in known_steps])) is not None:
            closeness[row.name] = asdict(close)
    return {"differences": tuple(differences), "oracle_shares": shares, "decompositions": closeness}


def embedder(encoder: TextEncoder) -> Embed:
    """Unit vectors by `encoder`; of a text that it cannot take, the zero vector, which is near to nothing."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), encoder.width), dtype=np.float32)
        for i, read in enumerate(encoder.encode_all(texts)):
            if not isinstance(read, UnreadableTextError):
                vectors[i] = encoder.embed([read.text])[0]
        return vectors

    return embed


class _Bar:
    """A bar over the tasks of all rows, of which so many are expected."""

    def __init__(self, progress: Progress, tasks: int, rows: int) -> None:
        self._progress = progress
        self._tasks = tasks
        self._expected = rows
        self._line: TaskID = progress.add_task("evaluate", total=tasks * rows, status="")
        self._rows = 0

    def start(self, row: str) -> Callable[[], None]:
        """Begin a row; call the result after each of its tasks."""
        self._rows += 1
        total = self._tasks * max(self._rows, self._expected)
        self._progress.update(self._line, total=total, status=f"row {self._rows}: {row}")
        return lambda: self._progress.advance(self._line)
