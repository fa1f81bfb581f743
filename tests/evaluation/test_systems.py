"""The whole comparison on scripted workers in the real sandbox: what every row must score is known."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestai.config import Config, WorkersConfig
from orchestai.data.prepare import fit_estimate
from orchestai.errors import FaultKind, InfrastructureError, UserError
from orchestai.evaluation.systems.baselines import ORACLE, SAMPLE_K, STATIC_MIX
from orchestai.evaluation.systems.evaluate import Logged, evaluate
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan
from orchestai.planner.baselines import FixedAssignment, RandomAssignment, ReferencePlanner, WholePlanner
from orchestai.planner.forecast import PoolForecaster
from orchestai.sandbox import Sandbox
from orchestai.tasks.composition.generate import BY_NAME
from orchestai.tasks.suites import canonical_steps
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, Usage
from orchestai.workflow import Subtask, Workflow

CONFIG = Config(
    workers=WorkersConfig.model_validate(
        {
            "models": {"m": {"kind": "openai_api", "name": "scripted"}},
            "pool": {
                "weak": {"kind": "model", "model": "m", "card": "Knows lists.", "price_per_call_usd": 0.001},
                "strong": {
                    "kind": "model",
                    "model": "m",
                    "card": "Knows every step.",
                    "price_per_call_usd": 0.01,
                    "samples": 8,
                    "temperature": 0.8,
                },
            },
            "cascade": ["weak", "strong"],
        }
    )
)


REWARD = AbsoluteReward(10.0, "all", None, beta=0.1, gamma_latency=0.01, shaped_reward=0.1)


def chain(number: int) -> Task:
    """An operation on strings, then one on what it gives, worded by the catalogue, with a hidden test."""
    operations = list(BY_NAME.values())
    fits = [
        (first, second)
        for first in operations
        for second in operations
        if first.inputs == ("str",) and first.output != "str" and second.inputs == (first.output,)
    ]
    first, second = fits[number * 37 % len(fits)]
    spans = [operation.phrasings[0].span for operation in (first, second)]
    instruction = f"Write a function `task_func(x)`. First, {spans[0]}. Then, {spans[1]}."
    value = first.phrasings[0].args[0]
    wanted = second.function(first.function(value))
    return Task(
        task_id=f"chain/{number}",
        suite="toy",
        instruct_prompt=instruction,
        parameters=("x",),
        test=(
            "import unittest\n\nclass Tests(unittest.TestCase):\n    def test_one(self):\n"
            f"        self.assertEqual(task_func({value!r}), {wanted!r})\n"
        ),
        reference=Workflow(
            [
                Subtask(
                    id=str(i + 1),
                    instruction=span,
                    task_type=operation.task_type,
                    depends_on=("1",) if i else (),
                    span=(instruction.index(span), instruction.index(span) + len(span)),
                )
                for i, (operation, span) in enumerate(zip((first, second), spans, strict=True))
            ]
        ),
    )


class Scripted:
    """`strong` writes every step and no whole task; `weak` writes steps on strings alone."""

    def __init__(self, tasks: list[Task], broken: bool = False, cost_usd: dict[str, float] | None = None) -> None:
        self.broken = broken
        self.cost_usd = cost_usd or {"weak": 0.001, "strong": 0.01}
        self.sources: dict[str, str] = {}
        self.easy: set[str] = set()
        for task in tasks:
            assert task.reference is not None
            steps = canonical_steps(task.reference)
            assert steps is not None
            self.sources |= {s.instruction: steps[s.id] for s in task.reference.subtasks}
            self.easy |= {s.instruction for s in task.reference.subtasks if s.task_type == "string"}

    async def answer(self, name: str, request: Request) -> Answer:
        if self.broken:
            raise InfrastructureError("server", "the server is down")
        knows = request.instruction in self.sources and (name == "strong" or request.instruction in self.easy)
        text = self.sources[request.instruction] if knows else "def step(x):\n    return 'no idea'\n"
        return Answer(text=text, cost_usd=self.cost_usd[name], latency_ms=1.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as opened:
        yield opened


def no_embedding(texts) -> np.ndarray:
    return np.ones((len(texts), 1), dtype=np.float32)


async def logged(tasks: list[Task], executor: JudgingExecutor) -> list[ExecutionRecord]:
    records = []
    for seed in range(4):
        plans = ReferencePlanner(RandomAssignment(("weak", "strong"), 0), seed).plan(tasks)
        done = [await executor.execute(t, p.workflow) for t, p in zip(tasks, plans, strict=True) if p.workflow]
        records += [
            ExecutionRecord.from_execution(execution, task, planner="reference", pool=("weak", "strong"))
            for task, execution in zip(tasks, done, strict=True)
        ]
    return records


async def test_evaluation_end_to_end(sandbox: Sandbox, tmp_path: Path) -> None:
    """All rows on real executions: what each row must score is known, and so is the oracle."""
    tasks, others = [chain(i) for i in range(12)], [chain(i) for i in range(20, 32)]
    executor = JudgingExecutor(Scripted(tasks + others), sandbox, CONFIG.execution)
    opened: list[WorkersConfig] = []

    @asynccontextmanager
    async def open_executor(workers: WorkersConfig) -> AsyncIterator[JudgingExecutor]:
        opened.append(workers)
        scripted = Scripted(tasks, cost_usd={SAMPLE_K: 0.006 + 0.0005 * workers.pool[SAMPLE_K].samples})
        yield JudgingExecutor(scripted, sandbox, CONFIG.execution)

    records = await logged(others, executor)
    estimate = fit_estimate(records * 10, CONFIG)
    assert estimate is not None
    evaluation = await evaluate(
        CONFIG,
        {
            "phase1": ReferencePlanner(FixedAssignment(("weak",))),
            "phase2": ReferencePlanner(FixedAssignment(("weak", "strong"))),
        },
        Runner(executor, tasks, REWARD),
        REWARD,
        Logged(no_embedding, [*records, *await logged(tasks[:1], executor)]),
        open_executor=open_executor,
        forecaster=PoolForecaster(estimate),
        execution_log=ExecutionLog(tmp_path, "ran"),
    )
    rows = {summary.name: summary for summary in evaluation.summaries}
    assert list(rows)[:2] == ["phase1", "phase2"]
    assert rows["phase1"].success == 0.0
    assert rows["phase2"].success == 1.0
    assert rows["whole: strong"].success == rows["whole: cascade"].success == 0.0
    assert rows["cascade per step"].success == 1.0
    assert rows["cheapest worker"].success == 0.0
    assert rows[ORACLE].success == 1.0
    # weak, then strong: the cheapest right plan.
    assert rows[ORACLE].cost_usd == pytest.approx(0.011)
    assert rows["phase2"].cost_usd == pytest.approx(0.012)
    # Eight samples cost 0.0100, so ten are tried: 0.0110; eleven: 0.0115; twelve cost what phase 2 costs.
    assert [workers.pool[SAMPLE_K].samples for workers in opened] == [10, 11, 12]
    assert evaluation.facts["sample_k"]["k"] == 12
    assert rows[SAMPLE_K].cost_usd == pytest.approx(0.012)
    assert evaluation.facts["log_executions"] == len(records)
    # The planner asks weak first for both steps of each task, and weak knows one of them.
    ran = read_log(tmp_path / "ran.jsonl").records
    assert [(one.planner, one.success) for one in ran] == [("phase2", True)] * 12 + [(ORACLE, True)] * 12
    gains = {(d.of, d.to): d for d in evaluation.differences}
    assert gains["phase2", "phase1"].success.mean == 1.0
    assert set(gains) >= {("phase2", name) for name in rows if name != "phase2"}
    assert evaluation.decompositions["phase2"]["exact"] == 1.0
    assert 0.9 < (evaluation.oracle_shares["phase2"] or 0) <= 1.0
    swept = evaluation.preferences
    assert swept is not None
    assert swept.planner == "phase2"
    solved = [point.success.mean for point in swept.preferences]
    assert solved == sorted(solved)
    cheapest, best = swept.preferences[0], swept.preferences[-1]
    assert best.success.mean == 1.0
    assert cheapest.cost_usd < best.cost_usd < 0.02
    assert best.expected_cost_usd == pytest.approx(best.cost_usd, rel=0.25)
    assert set(swept.above) == set(rows) - {ORACLE, STATIC_MIX}
    # Asked for every step, or for the whole, one worker alone solves nothing or asks strong: mixed, they cost no more.
    assert rows[STATIC_MIX].cost_usd <= rows["phase2"].cost_usd + 1e-12

    evaluation.write(tmp_path / "evaluation.json")
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert {"name", "suite", "n", "success", "success_ci", "reward", "cost_usd", "latency_ms", "validity"} <= set(
        written["rows"][0]
    )
    assert written["conclusion"] == evaluation.conclusion.split("\n")
    assert (tmp_path / "evaluation.png").read_bytes().startswith(b"\x89PNG")
    assert written["preferences"]["cost_is_monotone"] == swept.monotone
    text = (tmp_path / "evaluation.txt").read_text()
    assert "cascade per step" in text
    assert "random workers" not in text
    assert {row["name"] for row in written["rows"]} == set(rows) >= {"random workers", STATIC_MIX}


class Doubting:
    """Plans as another does, and is not sure of every third plan."""

    def __init__(self, planner: ReferencePlanner) -> None:
        self.planner = planner

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return [replace(plan, confidence=0.9 if i % 3 else 0.1) for i, plan in enumerate(self.planner.plan(tasks))]


async def test_a_further_row_has_what_is_answered_where_the_planner_is_not_sure(sandbox: Sandbox) -> None:
    """Plans that `run` would not follow were all that was evaluated."""
    tasks = [chain(i) for i in range(12)]
    runner = Runner(JudgingExecutor(Scripted(tasks), sandbox, CONFIG.execution), tasks, REWARD)
    planner = Doubting(ReferencePlanner(FixedAssignment(("strong",))))
    whole = WholePlanner("weak")
    evaluation = await evaluate(CONFIG, {"one": planner}, runner, REWARD, Logged(no_embedding), whole=whole)
    rows = {summary.name: summary for summary in evaluation.summaries}
    assert (rows["one"].success, rows["one, as served"].success) == (1.0, pytest.approx(2 / 3))
    served = {d.to: d.success.mean for d in evaluation.differences if d.of == "one, as served"}
    assert served["one"] == pytest.approx(-1 / 3)
    assert served["whole: weak"] == pytest.approx(2 / 3)
    assert "as served" not in evaluation.conclusion
    sure = ReferencePlanner(FixedAssignment(("strong",)))
    evaluation = await evaluate(CONFIG, {"one": sure}, runner, REWARD, Logged(no_embedding), whole=whole)
    assert all("as served" not in summary.name for summary in evaluation.summaries)


class Paying:
    """Plans as another does, at a price; for the tasks in `lost` its model could not be asked."""

    def __init__(self, planner: ReferencePlanner, lost: tuple[str, ...] = (), kind: FaultKind = "server") -> None:
        self.planner = planner
        self.lost = lost
        self.kind = kind

    def plan(self, tasks) -> list[Plan]:
        usage = Usage(requests=1, prompt_tokens=9, completion_tokens=9, cost_usd=0.25, latency_ms=7.0)
        return [
            Plan(None, False, error="down", fault=Unscorable(self.kind, "planner is down"))
            if task.task_id in self.lost
            else replace(plan, usage=usage)
            for task, plan in zip(tasks, self.planner.plan(tasks), strict=True)
        ]


async def test_what_planning_costs_is_part_of_a_rows_cost_and_reward(sandbox: Sandbox) -> None:
    """A planner that asks a model looked as cheap as one that does not."""
    tasks = [chain(i) for i in range(10)]
    runner = Runner(JudgingExecutor(Scripted(tasks), sandbox, CONFIG.execution), tasks, REWARD)
    planner = ReferencePlanner(FixedAssignment(("strong",)))
    free = await runner.row("free", planner, lambda: None)
    paid = await runner.row("paid", Paying(planner), lambda: None)
    assert paid.values("cost_usd") == pytest.approx(free.values("cost_usd") + 0.25)
    assert paid.values("latency_ms") == pytest.approx(free.values("latency_ms") + 7.0)
    assert (paid.values("reward") < free.values("reward")).all()
    lost = await runner.row("lost", Paying(planner, lost=("chain/3",)), lambda: None)
    assert [i for i, result in enumerate(lost.results) if np.isnan(result.success)] == [3]
    assert lost.results[3].reason == "planner is down"
    runner.refuse_if_broken()
    with pytest.raises(UserError, match="planner is down"):
        await runner.row("broke", Paying(planner, lost=("chain/3",), kind="payment"), lambda: None)
