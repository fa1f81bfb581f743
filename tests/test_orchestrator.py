"""`run` keeps its contract whatever workers do, and says what it did; nothing here stands for a part of the product."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestai import Contract, Orchestrator
from orchestai.admission import Admission
from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.execution.contract.deadline import DeadlineError
from orchestai.execution.contract.ledger import Ledger
from orchestai.execution.contract.trimming import ContractError, InfeasibleContractError
from orchestai.execution.events import AnswerReady, NodeDone, PlanReady, WorkerAsked
from orchestai.execution.log import read_log
from orchestai.execution.replay_run import find_run, replay
from orchestai.orchestrator import Event, RunResult
from orchestai.planner.base import Plan
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.serving import PlanningQueue, ServedPlanner
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow
from support.serving.contract_workers import PRICE

ODD = ("negative", "priceless", "mangled", "stopping")
HANDS = ("good", "slow", "hanging", "deaf", "failing", "down", "broken", "lying", "long")
INSTRUCTION = "Look up the town. Then say how many live there."


def settings(*cascade: str, **contract: object) -> Config:
    pool = {
        name: {
            "kind": "function",
            "function": f"support.serving.contract_workers:{name}",
            "card": name,
            "price_per_call_usd": PRICE,
        }
        for name in (*HANDS, *ODD)
    }
    return Config(
        workers={"pool": pool, "cascade": cascade, "cache_dir": None},
        planner={"base": "none"},
        execution={"assembler": "sink"},
        sandbox={"level": "process"},
        contract=contract,
    )


def opened(*cascade: str, log: Path | None = None, ledger: Ledger | None = None, **contract: object) -> Orchestrator:
    return Orchestrator.open(None, settings(*cascade, **contract), log=log, ledger=ledger)


def planning(draw: Callable[[], Plan]) -> PlanningQueue:
    return PlanningQueue(ServedPlanner("drawn", lambda tasks: [draw() for _ in tasks]))


async def test_an_answer_has_a_receipt_a_log_line_and_a_replay(tmp_path: Path) -> None:
    async with opened("failing", "lying", "good", log=tmp_path) as o:
        result = await o.run(INSTRUCTION, Contract(max_cost_usd=1.0), answer="text")
        assert "no checkpoint" in o.planner_named(None).name
        assert "failing > lying > good" in o.planner_named(None).name
    assert result.answer == f"good: {INSTRUCTION}"
    receipt = result.receipt
    (node,) = receipt.nodes
    assert [(asked.worker, asked.spent_usd) for asked in node.asked] == [
        ("failing", PRICE / 2),
        ("lying", PRICE),
        ("good", PRICE),
    ]
    assert [bool(asked.why_next) for asked in node.asked] == [True, True, False]
    assert "'lying' billed 0.5 USD and may bill 0.01" in node.asked[1].why_next
    assert receipt.status == "complete"
    assert receipt.spent_usd == pytest.approx(2.5 * PRICE)
    assert receipt.disputed_usd == pytest.approx(49 * PRICE)
    assert receipt.reserved_usd == pytest.approx(3 * PRICE)
    assert receipt.calls == 3

    (path,) = tmp_path.glob("*.jsonl")
    line = json.loads(path.read_text())
    assert line["outcome"] == "unjudged"
    assert line["receipt"]["run_id"] == receipt.run_id
    record = find_run(receipt.replay.rpartition(" ")[2])
    again = await replay(record, o.config.execution, o.config.sandbox)
    assert again.answer == result.answer


async def test_what_happens_is_told_as_it_happens() -> None:
    async with opened("failing", "good") as o:
        events = [event async for event in o.stream(INSTRUCTION, answer="text")]
    assert isinstance(events[0], PlanReady)
    assert [event.worker for event in events if isinstance(event, WorkerAsked)] == ["failing", "good"]
    assert isinstance(events[-2], NodeDone)
    assert isinstance(events[-1], AnswerReady)
    assert [event.type for event in events] == [
        "planned",
        "node_started",
        "attempt",
        "check",
        "attempt",
        "check",
        "node_done",
        "answer",
    ]


async def test_a_stream_that_is_left_cancels_its_run() -> None:
    async with opened("hanging") as o:
        stream = o.stream(INSTRUCTION, answer="text")
        async for event in stream:
            if isinstance(event, WorkerAsked):
                break
        await stream.aclose()
        assert o.ledger.reserved_usd == 0
        assert o.ledger.spent_usd == PRICE, "a request that was cut off may be billed"


async def test_a_run_that_is_cancelled_leaves_its_line_in_the_log(tmp_path: Path) -> None:
    """What was done was paid for: the log says so, and the run can be replayed."""
    steps = [
        {"id": "a", "instruction": "Look it up", "worker": "good"},
        {"id": "b", "instruction": "count", "depends_on": ["a"], "worker": "hanging"},
    ]
    asked = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, WorkerAsked) and event.worker == "hanging":
            asked.set()

    async with opened("good", log=tmp_path) as o:
        o._planning = planning(lambda: Plan(Workflow(steps), True))
        run = asyncio.ensure_future(o.run(INSTRUCTION, answer="text", listen=listen))
        await asked.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (o.ledger.reserved_usd, o.ledger.spent_usd) == (0, 2 * PRICE)
    (path,) = tmp_path.glob("*.jsonl")
    (record,) = read_log(path).records
    assert (record.error, record.answer) == ("interrupted", "good: Look it up")
    assert record.receipt is not None
    assert record.receipt.status == "partial"
    assert (record.receipt.spent_usd, record.receipt.unsettled_usd) == (2 * PRICE, PRICE)
    assert [node.status for node in record.receipt.nodes] == ["done", "failed"]
    assert find_run(record.receipt.replay.rpartition(" ")[2]) == record


async def test_a_contract_that_cannot_be_kept_is_refused_before_anybody_is_asked() -> None:
    async with opened("good", "slow") as o:
        with pytest.raises(InfeasibleContractError, match=r"max_cost_usd=1e-06.*1 step.*max_cost_usd=0\.01") as refused:
            await o.run(INSTRUCTION, Contract(max_cost_usd=1e-6), answer="text")
        assert refused.value.feasible == Contract(max_cost_usd=PRICE)
        result = await o.run(INSTRUCTION, refused.value.feasible, answer="text")
        assert result.receipt.changes == ("step 1: without the fallback slow",)
        assert o.ledger.spent_usd == PRICE
        with pytest.raises(UserError, match="no worker 'nobody'"):
            await o.run(INSTRUCTION, Contract(allow=("nobody",)), answer="text")
        with pytest.raises(UserError, match="empty"):
            await o.run("  ")


@pytest.mark.parametrize("worker", ["negative", "priceless"])
async def test_a_bill_that_is_no_price_counts_as_the_worst_case(worker: str) -> None:
    """A negative one gave money to every other run, and NaN ended the program without an answer."""
    async with opened(worker, "good") as o:
        receipt = (await o.run(INSTRUCTION, Contract(max_cost_usd=1.0), answer="text")).receipt
    assert "which is no price" in receipt.nodes[0].asked[0].why_next
    assert receipt.nodes[0].answered_by == "good"
    assert receipt.spent_usd == o.ledger.spent_usd == 2 * PRICE


async def begun(o: Orchestrator) -> asyncio.Task[RunResult]:
    """A run without a deadline whose worker has been asked."""
    asked = asyncio.Event()

    def note(event: Event) -> None:
        if isinstance(event, WorkerAsked):
            asked.set()

    run = asyncio.create_task(o.run(INSTRUCTION, answer="text", listen=note))
    await asked.wait()
    return run


async def test_who_waits_past_the_deadline_is_told_and_asks_nobody() -> None:
    async with opened("hanging") as o:
        o._in_work = Admission(1)
        first = await begun(o)
        runs = (o.run(INSTRUCTION, Contract(deadline_s=0.05), answer="text") for _ in range(3))
        others = await asyncio.gather(*runs, return_exceptions=True)
        assert [type(other) for other in others] == [DeadlineError] * 3
        assert all("it passed while" in str(other) for other in others)
        first.cancel()
        second = await begun(o)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert o.ledger.spent_usd == 2 * PRICE
        assert o.ledger.reserved_usd == 0


async def test_a_planner_that_fails_one_task_plans_the_others() -> None:
    """Those that wait are planned together."""
    sizes = []

    def draw(tasks: Sequence[Task]) -> list[Plan]:
        sizes.append(len(tasks))
        if any("bad" in task.instruction for task in tasks):
            raise UserError("a bad instruction")
        return WholePlanner("good").plan(tasks)

    async with opened("good") as o:
        o._planning = PlanningQueue(ServedPlanner("picky", draw, together=3))
        words = ("first", "second", "bad", "last", "fifth")
        outcomes = await asyncio.gather(*(o.run(word, answer="text") for word in words), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RunResult, RunResult, UserError, RunResult, RunResult]
    assert max(sizes) == 3


async def test_a_run_is_paid_by_the_ledger_that_it_is_given() -> None:
    """Several customers share one orchestrator: none may pay for another."""
    customer = Ledger(1.5 * PRICE)
    async with opened("good", ledger=Ledger(0.0)) as o:
        result = await o.run(INSTRUCTION, answer="text", ledger=customer, run_id="run-0123456789ab")
        assert result.receipt.run_id == "run-0123456789ab"
        assert (o.ledger.spent_usd, customer.spent_usd) == (0, PRICE)
        with pytest.raises(ContractError, match="the ledger"):
            [event async for event in o.stream(INSTRUCTION, answer="text", ledger=customer)]
        assert customer.reserved_usd == 0


@pytest.mark.parametrize("worker", ["hanging", "deaf"])
async def test_at_the_deadline_a_run_ends(worker: str) -> None:
    async with opened(worker) as o:
        result = await o.run(INSTRUCTION, Contract(deadline_s=0.3), answer="text")
        assert (result.answer, result.receipt.status) == ("", "failed")
        assert result.receipt.nodes[0].asked[0].why_next == "stopped before it answered"
        assert result.receipt.unsettled_usd == result.receipt.spent_usd == PRICE


async def test_what_is_done_by_the_deadline_is_the_answer() -> None:
    async with opened("good") as o:
        steps = [
            {"id": "a", "instruction": "Look it up", "worker": "good"},
            {"id": "b", "instruction": "count", "depends_on": ["a"], "worker": "hanging"},
        ]
        o._planning = planning(lambda: Plan(Workflow(steps), True))
        result = await o.run(INSTRUCTION, Contract(deadline_s=0.3), answer="text")
        assert (result.answer, result.receipt.status) == ("good: Look it up", "partial")


def test_there_is_an_answer_without_an_event_loop_and_inside_a_notebooks(tmp_path: Path) -> None:
    with opened("good") as o:
        assert o.run_sync(INSTRUCTION, answer="text").receipt.status == "complete"

    async def cell() -> str:
        notebook = opened("good")
        try:
            return notebook.run_sync(INSTRUCTION, answer="text").answer
        finally:
            notebook.close()

    assert asyncio.run(cell()).startswith("good")


async def test_no_contract_is_broken_by_many_runs_of_workers_that_keep_to_nothing() -> None:
    """All at once, with every kind of misbehavior in turn, over one ledger."""
    rng = random.Random(0)
    ledger = Ledger(1.5)
    async with opened("good", ledger=ledger) as o:

        def draw() -> Plan:
            steps = [
                {
                    "id": str(i),
                    "instruction": f"step {i}",
                    "worker": rng.choice(HANDS),
                    "fallback": rng.sample(HANDS, 2),
                    "depends_on": [str(rng.randrange(i))] if i and rng.random() < 0.7 else [],
                }
                for i in range(rng.randint(1, 4))
            ]
            return Plan(Workflow(steps), True)

        o._planning = planning(draw)

        async def one(number: int) -> tuple[float, float, float] | None:
            limit, deadline = rng.choice([0.01, 0.03, 0.1]), rng.choice([0.3, 0.6, 1.0])
            began = time.monotonic()
            try:
                contract = Contract(max_cost_usd=limit, deadline_s=deadline, max_calls=rng.randint(1, 9))
                result = await o.run(INSTRUCTION, contract, answer="text")
            except ContractError:
                return None
            receipt = result.receipt
            assert receipt.spent_usd <= receipt.reserved_usd <= limit + 1e-12
            assert receipt.calls <= contract.max_calls
            assert receipt.spent_usd == pytest.approx(
                sum(asked.spent_usd for node in receipt.nodes for asked in node.asked) + receipt.unsettled_usd
            )
            return limit, deadline, time.monotonic() - began

        done = [each for each in await asyncio.gather(*(one(number) for number in range(300))) if each is not None]
    assert len(done) > 20
    assert ledger.reserved_usd == 0
    assert ledger.spent_usd <= 1.5
