"""Evaluation: known answers for its statistics, and the whole comparison on scripted workers in the real sandbox."""

from __future__ import annotations

import json
import math
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from orchestai.config import Config, Phase2Config, WorkersConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.evaluation.assignments import NearestAssignment, PriorAssignment
from orchestai.evaluation.baselines import ORACLE, SAMPLE_K, ReassignedPlanner
from orchestai.evaluation.credit import Trial, infer_right, trials
from orchestai.evaluation.decomposition import compare
from orchestai.evaluation.evaluate import evaluate
from orchestai.evaluation.metrics import bootstrap_mean, paired_difference, proportion
from orchestai.evaluation.oracle import best_of, canonical_steps
from orchestai.evaluation.picture import frontier
from orchestai.evaluation.report import Difference, conclusion, difference, oracle_share, summarise
from orchestai.evaluation.results import Result, Row
from orchestai.evaluation.runner import Runner
from orchestai.evaluation.sample_k import next_k
from orchestai.execution.executor import Executor
from orchestai.execution.record import ExecutionRecord
from orchestai.planner.assignment import FixedAssignment, RandomAssignment
from orchestai.planner.base import Plan
from orchestai.planner.reference import ReferencePlanner
from orchestai.sandbox import Sandbox
from orchestai.tasks.composition.operations import BY_NAME
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerCard
from orchestai.workflow import Subtask, Workflow

NAN = math.nan


# ---------------------------------------------------------------------------------------------------- statistics


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    """On many well-behaved values both are the same up to sampling error."""
    values = np.random.default_rng(1).normal(2.0, 3.0, 2000)
    interval = bootstrap_mean(values)
    half = 1.96 * values.std() / math.sqrt(2000)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.02)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.02)


def test_bootstrap_repeats_itself_and_leaves_out_what_was_not_judged() -> None:
    values = np.array([1.0, NAN, 3.0, 5.0])
    assert bootstrap_mean(values) == bootstrap_mean(values[[0, 2, 3]])
    assert bootstrap_mean(values).n == 3
    assert bootstrap_mean(np.array([NAN])).to_dict() == {"mean": None, "low": None, "high": None, "n": 0}


def test_pairing_removes_what_the_tasks_have_in_common() -> None:
    """Hard and easy tasks differ far more than planners do; only a paired interval sees a small constant gain."""
    theirs = np.random.default_rng(0).normal(0, 100, 300)
    gain = paired_difference(theirs + 0.5, theirs)
    assert (gain.low, gain.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert gain.excludes_zero()
    assert paired_difference(np.array([1.0, NAN, 2.0]), np.array([NAN, 1.0, 1.0])).n == 1


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 300, 0.0, 0.01264), (150, 300, 0.44378, 0.55622), (300, 300, 0.98736, 1.0)],
)
def test_wilson_interval(successes: int, n: int, low: float, high: float) -> None:
    """Known answers; at 0 of 300 the bootstrap would claim certainty."""
    interval = proportion(np.array([1.0] * successes + [0.0] * (n - successes)))
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))


def test_frontier_keeps_what_no_cheaper_row_equals() -> None:
    points = [(1.0, 10.0), (2.0, 10.0), (3.0, 9.0), (4.0, 50.0), (4.0, 40.0), (9.0, 51.0)]
    assert frontier(points) == [(1.0, 10.0), (4.0, 50.0), (9.0, 51.0)]


# ------------------------------------------------------------------------------------------------ decompositions


def diamond(**changes: dict) -> Workflow:
    steps = [
        Subtask(id="1", instruction="a", task_type="string", span=(0, 10)),
        Subtask(id="2", instruction="b", task_type="string", span=(10, 20)),
        Subtask(id="3", instruction="c", task_type="combine", span=(20, 30), depends_on=("1", "2")),
    ]
    return Workflow(steps).replace(changes)


def test_decompositions_are_compared_by_words_not_by_numbering() -> None:
    renamed = Workflow([s.model_copy(update={"id": f"n{s.id}"}) for s in diamond().subtasks[:2]] + [
        diamond()["3"].model_copy(update={"depends_on": ("n1", "n2")})
    ])  # fmt: skip
    found = compare([renamed], [diamond()])
    assert found is not None
    assert (found.exact, found.step_f1, found.edge_f1) == (1.0, 1.0, 1.0)


def test_decomposition_errors_are_counted_where_they_are() -> None:
    lost_edge = diamond(**{"3": {"depends_on": ("1",)}})
    shifted = diamond(**{"2": {"span": (12, 20), "instruction": "b'"}})
    found = compare([lost_edge, shifted, None], [diamond()] * 3)
    assert found is not None
    assert found.exact == 0
    assert found.step_f1 == pytest.approx(2 * 6 / (6 + 9))
    assert found.edge_f1 == pytest.approx(2 * 3 / (3 + 6))
    assert compare([], []) is None


def test_swapped_arguments_are_not_the_same_plan() -> None:
    found = compare([diamond(**{"3": {"depends_on": ("2", "1")}})], [diamond()])
    assert found is not None
    assert (found.exact, found.edge_f1) == (0.0, 1.0)


# -------------------------------------------------------------------------------------------------------- credit


def test_the_blame_for_a_failure_goes_to_the_weak_worker() -> None:
    """Two-step executions in which cell 0 is always right and cell 1 is right in one of four."""
    rng = np.random.default_rng(0)
    succeeded = rng.random(400) < 0.25
    right = infer_right(
        cell=np.tile([0, 1], 400),
        execution=np.repeat(np.arange(400), 2),
        suspect=np.ones(800, dtype=bool),
        succeeded=succeeded,
        complete=np.ones(400, dtype=bool),
    )
    # Nothing but products is observed: the two rates multiply to the success rate.
    assert right[0::2].mean() * right[1::2].mean() == pytest.approx(succeeded.mean(), abs=0.03)
    alone = infer_right(
        cell=np.append(np.tile([0, 1], 400), np.zeros(100, dtype=int)),
        execution=np.append(np.repeat(np.arange(400), 2), np.arange(400, 500)),
        suspect=np.ones(900, dtype=bool),
        succeeded=np.append(succeeded, np.ones(100, dtype=bool)),
        complete=np.ones(500, dtype=bool),
    )
    # Executions of cell 0 alone, all successful, show whose fault the others are.
    assert alone[0:800:2].mean() > 0.95
    assert alone[1:800:2].mean() == pytest.approx(succeeded.mean(), abs=0.05)


def test_a_known_culprit_clears_the_others() -> None:
    right = infer_right(
        cell=np.array([0, 1, 0]),
        execution=np.array([0, 0, 1]),
        suspect=np.array([True, False, True]),
        succeeded=np.array([False, True]),
        complete=np.array([False, True]),
    )
    # Cell 0 was right once, perhaps twice, and one of each is imagined: q = (q + 1 + 1) / 4.
    assert list(right) == [pytest.approx(2 / 3), 0.0, 1.0]


def trial(worker: str, kind: str, value: float, words: str = "", first: bool = True) -> Trial:
    return Trial(worker, kind, words, first, right=0.0, value=value)


def asked(assignment, *subtasks: tuple[str, str]) -> list[tuple[str, ...]]:
    return assignment(
        [Subtask(id=str(i), instruction=w, task_type=k) for i, (k, w) in enumerate(subtasks)], random.Random(0)
    )


def test_prior_takes_the_best_worker_per_type_and_worthwhile_fallbacks() -> None:
    log = [trial("a", "list", 9.0)] * 20 + [trial("b", "list", 4.0)] * 20 + [trial("c", "list", -30.0)] * 20
    log += [trial("a", "date", -5.0)] * 20 + [trial("b", "date", 4.0)] * 20
    log += [trial("b", "list", 10.0, first=False)] * 500  # fallbacks see what others failed at: not comparable
    prior = PriorAssignment(log, fallbacks=2)
    assert prior.table["list"] == ("a", "b")
    assert prior.table["date"][0] == "b"
    assert asked(prior, ("poem", "")) == [("b", "a")]


def test_a_single_lucky_attempt_does_not_decide() -> None:
    log = [trial("steady", "list", 8.0)] * 50 + [trial("lucky", "date", 0.0)] * 50 + [trial("lucky", "list", 10.0)]
    assert PriorAssignment(log, fallbacks=0).table["list"] == ("steady",)


def test_nearest_asks_who_did_well_on_similar_words() -> None:
    axes = {"sort": [1.0, 0.0], "rank": [0.9, 0.1], "count": [0.0, 1.0], "unreadable": [0.0, 0.0]}

    def embed(texts):
        return np.array([axes[text] for text in texts], dtype=np.float32)

    log = [trial("a", "", 9.0, "sort"), trial("b", "", 1.0, "sort")] * 10
    log += [trial("a", "", 1.0, "count"), trial("b", "", 9.5, "count")] * 10
    nearest = NearestAssignment(log, embed, fallbacks=0, k=5)
    assert asked(nearest, ("", "rank"), ("", "count"), ("", "unreadable")) == [("a",), ("b",), ("b",)]


# ---------------------------------------------------------------------------------------------------- conclusions


def row(name: str, success: list[float], cost: float = 1.0, unjudged: int = 0) -> Row:
    workflow = Workflow([Subtask(id="1", instruction="x")])
    results = [Result(s, 10 * s - cost, cost, 5.0, True, workflow) for s in success]
    return Row(name, (*results, *[Result(NAN, NAN, NAN, NAN, True, workflow, "server down")] * unjudged))


def said(ours: Row, *others: Row, earlier: str = "") -> list[str]:
    rows = [ours, *others]
    compared = [difference(ours, other) for other in others]
    planners = [earlier, ours.name] if earlier else [ours.name]
    return conclusion(planners, [summarise(r, "toy") for r in rows], compared, {ours.name: 0.5}).split("\n")


def test_conclusion_says_what_the_intervals_say() -> None:
    ours = row("phase 2", [1.0] * 60 + [0.0] * 40)
    before = row("phase 1", [1.0] * 30 + [0.0] * 70)
    single = row("whole: best", [1.0] * 20 + [0.0] * 80)
    better = row("cascade", [1.0] * 90 + [0.0] * 10)
    same = row("kNN", [0.0] * 40 + [1.0] * 60)
    lines = said(ours, before, single, better, same, row("oracle", [1.0] * 100), earlier="phase 1")
    assert len(lines) == 2
    assert "60.0% of 100 toy tasks" in lines[0]
    assert "3.0 times what the best single worker" in lines[0]
    assert "+3.00 [+2.10, +3.90] against phase 1" in lines[1]
    assert "above 1 of 3 baselines; not told apart from kNN; below cascade; 50% of the oracle's" in lines[1]


def test_conclusion_when_nothing_was_gained() -> None:
    lines = said(row("phase 2", [0.0] * 50), row("whole: best", [1.0] * 25 + [0.0] * 25))
    assert "less than what the best single worker" in lines[0]
    assert "above 0 of 1 baselines; below whole: best" in lines[1]
    unjudged = Row("phase 2", row("", [], unjudged=3).results)
    assert "could not be judged" in said(unjudged, row("whole: best", [1.0] * 3))[0]


def test_unscorable_tasks_are_shown_and_left_out_of_pairs() -> None:
    ours, theirs = row("a", [1.0, 1.0], unjudged=2), row("b", [0.0, 0.0, 0.0, 0.0])
    summary = summarise(ours, "toy")
    assert (summary.n, summary.success, summary.unscorable) == (4, 1.0, 0.5)
    compared: Difference = difference(ours, theirs)
    assert (compared.success.n, compared.success.mean) == (2, 1.0)
    assert oracle_share(ours, theirs) is None


def test_oracle_takes_the_best_of_everything_task_by_task() -> None:
    oracle = best_of("oracle", [row("a", [1.0, 0.0]), row("b", [0.0, 1.0], cost=2.0), row("c", [], unjudged=2)])
    assert [result.reward for result in oracle.results] == [9.0, 8.0]


def test_the_budget_buys_samples_rounded_up() -> None:
    assert next_k(8, cost_usd=0.8, budget_usd=0.95) == 10
    assert next_k(8, cost_usd=0.8, budget_usd=0.8) == 8
    assert next_k(8, cost_usd=0.8, budget_usd=0.01) == 1


# ----------------------------------------------------------------------------------------------- the whole comparison

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
CARDS = [
    WorkerCard(name=name, text=worker.card, price_usd=worker.price_per_call_usd, kind="model")
    for name, worker in CONFIG.workers.pool.items()
]


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
            steps = canonical_steps(task)
            assert task.reference is not None
            assert steps is not None
            self.sources |= {s.instruction: steps[s.id] for s in task.reference.subtasks}
            self.easy |= {s.instruction for s in task.reference.subtasks if s.task_type == "string"}

    async def answer(self, name: str, request: Request) -> Answer:
        if self.broken:
            raise InfrastructureError("the server is down")
        knows = request.instruction in self.sources and (name == "strong" or request.instruction in self.easy)
        text = self.sources[request.instruction] if knows else "def step(x):\n    return 'no idea'\n"
        return Answer(text=text, cost_usd=self.cost_usd[name], latency_ms=1.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as opened:
        yield opened


def no_embedding(texts) -> np.ndarray:
    return np.ones((len(texts), 1), dtype=np.float32)


async def logged(tasks: list[Task], executor: Executor) -> list[ExecutionRecord]:
    records = []
    for seed in range(4):
        plans = ReferencePlanner(RandomAssignment(("weak", "strong"), 0), seed).plan(tasks)
        pairs = [(t, p.workflow) for t, p in zip(tasks, plans, strict=True) if p.workflow]
        done = await executor.execute_many(pairs)
        records += [
            ExecutionRecord.from_execution(execution, task, planner="reference", pool=("weak", "strong"))
            for task, execution in zip(tasks, done, strict=True)
        ]
    return records


async def test_evaluation_end_to_end(sandbox: Sandbox, tmp_path: Path) -> None:
    """All rows on real executions: what each row must score is known, and so is the oracle."""
    tasks, others = [chain(i) for i in range(12)], [chain(i) for i in range(20, 32)]
    executor = Executor(Scripted(tasks + others), sandbox, CONFIG.execution)
    opened: list[WorkersConfig] = []

    @asynccontextmanager
    async def open_executor(workers: WorkersConfig) -> AsyncIterator[Executor]:
        opened.append(workers)
        scripted = Scripted(tasks, cost_usd={SAMPLE_K: 0.006 + 0.0005 * workers.pool[SAMPLE_K].samples})
        yield Executor(scripted, sandbox, CONFIG.execution)

    records = await logged(others, executor)
    evaluation = await evaluate(
        CONFIG,
        {
            "phase1": ReferencePlanner(FixedAssignment(("weak",))),
            "phase2": ReferencePlanner(FixedAssignment(("weak", "strong"))),
        },
        tasks,
        executor,
        cards=CARDS,
        embed=no_embedding,
        records=[*records, *await logged(tasks[:1], executor)],
        open_executor=open_executor,
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
    gains = {(d.of, d.to): d for d in evaluation.differences}
    assert gains["phase2", "phase1"].success.mean == 1.0
    assert set(gains) >= {("phase2", name) for name in rows if name != "phase2"}
    assert evaluation.decompositions["phase2"]["exact"] == 1.0
    assert 0.9 < (evaluation.oracle_shares["phase2"] or 0) <= 1.0

    evaluation.write(tmp_path / "evaluation.json")
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert {"name", "suite", "n", "success", "success_ci", "reward", "cost_usd", "latency_ms", "validity"} <= set(
        written["rows"][0]
    )
    assert written["conclusion"] == evaluation.conclusion.split("\n")
    assert (tmp_path / "evaluation.png").read_bytes().startswith(b"\x89PNG")
    assert "cascade per step" in (tmp_path / "evaluation.txt").read_text()


async def test_equal_plans_run_once_and_invalid_plans_fail(sandbox: Sandbox) -> None:
    """Rows share most plans; and a planner that gives no plan has failed the task, not the evaluation."""
    tasks = [chain(0)]
    pool = Scripted(tasks)
    executor = Executor(pool, sandbox, CONFIG.execution)
    asked_for: list[str] = []
    answer = pool.answer

    async def counted(name: str, request: Request) -> Answer:
        asked_for.append(name)
        return await answer(name, request)

    pool.answer = counted  # type: ignore[method-assign]
    runner = Runner(executor, CONFIG, tasks)
    planner = ReferencePlanner(FixedAssignment(("strong",)))
    first = await runner.row("one", planner, lambda: None)
    assert await runner.row("two", planner, lambda: None) == Row("two", first.results)
    assert asked_for == ["strong", "strong"]
    broken = ReassignedPlanner({"chain/0": Plan(None, False, error="no")}, FixedAssignment(("weak",)))
    (result,) = (await runner.row("broken", broken, lambda: None)).results
    assert (result.success, result.reward, result.cost_usd, result.workflow) == (0.0, 0.0, 0.0, None)


async def test_a_dead_server_stops_the_evaluation(sandbox: Sandbox) -> None:
    """An infrastructure failure is never a score, and nobody should read a table made of one."""
    tasks = [chain(0)]
    executor = Executor(Scripted(tasks, broken=True), sandbox, CONFIG.execution)
    with pytest.raises(UserError, match=r"could not be judged.*server is down"):
        await evaluate(
            CONFIG,
            {"phase1": ReferencePlanner(FixedAssignment(("weak",)))},
            tasks,
            executor,
            cards=CARDS,
            embed=no_embedding,
        )


async def test_trials_come_from_logs(sandbox: Sandbox) -> None:
    """The credit of the scripted workers is what they are able to do, inferred from the log alone."""
    tasks = [chain(i) for i in range(12)]
    executor = Executor(Scripted(tasks), sandbox, CONFIG.execution)
    found = trials(await logged(tasks, executor), Phase2Config())
    assert {t.right for t in found if t.worker == "strong"} != {0.0}
    strong = [t.right for t in found if t.worker == "strong"]
    weak = [t.right for t in found if t.worker == "weak"]
    assert np.mean(strong) > 0.9 > np.mean(weak)
    assert all(
        t.value == pytest.approx(10 * t.right - 0.01 - 0.1 * (0.001 if t.worker == "weak" else 0.01)) for t in found
    )
