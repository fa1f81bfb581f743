"""Executing workflows: fallbacks and limits hold, and no fault becomes a zero."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from orchestai.config import ExecutionConfig, TasksConfig
from orchestai.errors import FaultKind, InfrastructureError
from orchestai.execution.contract.receipt import node_receipts
from orchestai.execution.result import Decision
from orchestai.execution.running_workflow import JudgingExecutor, Terms
from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Limits, Program, Report, Sandbox
from orchestai.tasks.asked_task import asked_task
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError, WorstCase
from orchestai.workflow import Workflow
from support.training.repeated_words import COUNT, SOLUTIONS, SPLIT, TASK, WRONG, whole, workflow


def steps_to_an_answer(second: str = "good") -> Workflow:
    return Workflow(
        [
            {"id": "sum", "instruction": SUM, "worker": "good"},
            {"id": "double", "instruction": DOUBLE, "worker": second, "depends_on": ("sum",)},
        ]
    )


QUESTION = Task(task_id="q", suite="own", instruct_prompt="Add 2 and 3, then double it.", answers=("10",))


class Scripted:
    """Workers that answer from a script: a source, an error to raise, or seconds to sleep before answering."""

    def __init__(self, scripts: Mapping[str, Any], *, cost_usd: float = 0.5, latency_ms: float = 100.0) -> None:
        self.scripts = scripts
        self.cost_usd = cost_usd
        self.latency_ms = latency_ms
        self.asked: list[tuple[str, Request]] = []
        self.in_flight = self.most_in_flight = 0

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase(cost_usd=self.cost_usd)

    async def answer(self, name: str, request: Request) -> Answer:
        self.asked.append((name, request))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            said = self.scripts[name]
            said = said.get(request.instruction, WRONG) if isinstance(said, Mapping) else said
            if isinstance(said, Exception):
                raise said
            await asyncio.sleep(said if isinstance(said, float) else 0.001)
            text = said if isinstance(said, str) else SOLUTIONS[request.instruction]
            return Answer(
                text=text,
                prompt=f"write {request.signature}",
                cost_usd=self.cost_usd,
                latency_ms=self.latency_ms,
                truncated=text.endswith("(cut)"),
            )
        finally:
            self.in_flight -= 1

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


class ScriptedExecutor(JudgingExecutor):
    pool: Scripted


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as sandbox:
        yield sandbox


def executor(
    sandbox: Sandbox, scripts: Mapping[str, Any], config: Mapping[str, Any] | None = None, **pool: Any
) -> ScriptedExecutor:
    workers = Scripted({"good": SOLUTIONS} | dict(scripts), **pool)
    return ScriptedExecutor(workers, sandbox, ExecutionConfig(**(config or {})))


async def test_a_right_workflow_passes_the_hidden_tests(sandbox: Sandbox) -> None:
    """Costs add up; latency is the critical path and not the sum."""
    execution = await executor(sandbox, {}).execute(TASK, workflow())
    assert (execution.outcome, execution.success, execution.error) == (Scored(1.0), True, None)
    assert (execution.tests_passed, execution.tests_total) == (2, 2)
    assert (execution.total_cost, execution.total_latency_ms) == (1.5, 200.0)
    assert execution.checks_passed == 3
    asked_whole = await executor(sandbox, {}).execute(TASK, whole())
    assert asked_whole.success
    assert asked_whole.answer == SOLUTIONS[TASK.instruction]


async def test_the_fallback_takes_over_where_the_check_fails_or_the_worker_cannot(sandbox: Sandbox) -> None:
    scripts = {"wrong": WRONG, "unable": WorkerError("numbers only")}
    execution = await executor(sandbox, scripts).execute(
        TASK, workflow("unable", fallback=("wrong", "good", "unasked"))
    )
    result = execution.results[0]
    assert [(a.worker, a.passed_check, a.error) for a in result.attempts] == [
        ("unable", None, "numbers only"),
        ("wrong", False, None),
        ("good", True, None),
    ]
    assert (result.worker, result.output, execution.success) == ("good", SOLUTIONS[SPLIT], True)
    assert execution.total_cost == 2.0
    assert execution.total_latency_ms == 300.0


async def test_where_no_answer_holds_the_first_is_kept(sandbox: Sandbox) -> None:
    scripts = {"wrong": WRONG, "worse": "def step(x):\n    return 1 / 0", "unable": WorkerError("no")}
    execution = await executor(sandbox, scripts).execute(TASK, workflow("unable", fallback=("wrong", "worse")))
    result = execution.results[0]
    assert (result.status, result.worker, result.passed_check, result.output) == ("done", "wrong", False, WRONG)
    assert execution.outcome == Scored(0.0)


async def test_one_failing_worker_does_not_lose_the_others(sandbox: Sandbox) -> None:
    """Where no worker answers the program cannot be right, which the hidden tests say."""
    execution = await executor(sandbox, {"unable": WorkerError("no")}).execute(TASK, workflow("unable"))
    assert [result.status for result in execution.results] == ["failed", "done", "done"]
    assert (execution.outcome, execution.tests_total) == (Scored(0.0), 2)
    assert execution.error == "words: no"


async def test_children_of_a_failed_parent_are_skipped_where_edges_carry_text(sandbox: Sandbox) -> None:
    pool_config = {"assembler": "sink"}
    one = executor(sandbox, {"unable": WorkerError("no"), "text": "anything"}, pool_config)
    execution = await one.execute(TASK, workflow("unable", "text", "text"))
    assert [result.status for result in execution.results] == ["failed", "done", "skipped"]
    fine = await one.execute(TASK, workflow("text", "text", "text"))
    assert fine.answer == "anything"
    assert one.pool.asked[-1][1].inputs == {"words": "anything", "letters": "anything"}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (InfrastructureError("recording_missing", "no recording of step"), "recording_missing"),
        (ZeroDivisionError("a bug of ours"), "internal"),
    ],
)
async def test_nobodys_fault_is_unscorable_and_keeps_the_other_results(
    sandbox: Sandbox, fault: Exception, kind: FaultKind
) -> None:
    execution = await executor(sandbox, {"down": fault}).execute(TASK, workflow("down"))
    assert execution.outcome == Unscorable(kind, f"down: {fault}")
    assert [result.status for result in execution.results] == ["failed", "done", "done"]
    assert execution.results[1].output == SOLUTIONS[COUNT]


async def test_a_worker_that_hangs_is_cut_off(sandbox: Sandbox) -> None:
    """Waiting is nobody's fault (the queue may have been ours), so there is no score; what was done is kept."""
    one = executor(sandbox, {"hangs": 60.0}, {"timeout_s": 0.5})
    began = time.perf_counter()
    execution = await one.execute(TASK, workflow("hangs"))
    assert time.perf_counter() - began < 5
    assert isinstance(execution.outcome, Unscorable)
    assert "within 0.5 s" in execution.outcome.reason
    assert [result.status for result in execution.results] == ["failed", "done", "skipped"]
    assert one.pool.in_flight == 0


async def test_no_worker_is_asked_whose_answer_might_exceed_the_budget(sandbox: Sandbox) -> None:
    """A budget of a millionth of a dollar was overspent 450 times, since it was only looked at afterwards."""
    one = executor(sandbox, {"wrong": WRONG}, {"max_cost_usd": 1.2})
    execution = await one.execute(TASK, workflow("wrong", "good", fallback=("good",)))
    assert [result.status for result in execution.results] == ["done", "done", "skipped"]
    assert len(execution.results[0].attempts) == 1
    assert "max_cost_usd=1.2" in (execution.error or "")
    assert execution.total_cost == 1.0
    assert not (await executor(sandbox, {}, {"max_cost_usd": 0.4}).execute(TASK, workflow())).total_cost


class CountingSandbox(Sandbox):
    """A sandbox that knows how many programs it has run."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(workers=2, limits=limits)
        self.programs = 0
        self._judge_one, self._judging.judge = self._judging.judge, self._counted  # type: ignore[method-assign]

    def _counted(self, program: Program) -> Report:
        self.programs += 1
        return self._judge_one(program)


async def test_equal_sources_are_judged_once() -> None:
    """Training runs thousands of workflows that share their steps; a time-out is tried again all the same."""
    with (counting := CountingSandbox(Limits(test_s=0.3))):
        one = executor(counting, {})
        first = await one.execute(TASK, workflow())
        again = await one.execute(TASK, workflow(), sample=1)
        assert counting.programs == 4
        assert (again.outcome, again.tests_total) == (first.outcome, first.tests_total)
        for _ in range(2):
            report = await judge(counting, TASK, "import time\ndef task_func(text):\n    time.sleep(60)")
            assert report.status == "timeout"
        assert counting.programs == 6


async def test_cancelling_leaves_nothing_running(sandbox: Sandbox) -> None:
    one = executor(sandbox, {"hangs": 60.0})
    job = asyncio.ensure_future(one.execute(TASK, workflow("hangs", "hangs")))
    await asyncio.sleep(0.1)
    assert one.pool.in_flight == 2
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert one.pool.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


async def test_a_wrong_text_is_a_failure_and_a_lost_parent_stops_its_children(sandbox: Sandbox) -> None:
    wrong = await executor(sandbox, {"good": {SUM: "5", DOUBLE: "11"}}).execute(QUESTION, steps_to_an_answer())
    assert (wrong.outcome, wrong.success) == (Scored(0.0), False)
    lost = executor(sandbox, {"good": WorkerError("cannot add")})
    execution = await lost.execute(QUESTION, steps_to_an_answer())
    assert [result.status for result in execution.results] == ["failed", "skipped"]
    assert lost.pool.names == ["good"]


@pytest.mark.parametrize("said", ["", "I'm sorry, but I can't help with that.", "I do not know.", "The sum is (cut)"])
async def test_an_answer_that_is_empty_a_refusal_or_cut_off_is_not_accepted(sandbox: Sandbox, said: str) -> None:
    steps = Workflow([{"id": "0", "instruction": QUESTION.instruction, "worker": "bad", "fallback": ("fine",)}])
    asked = await executor(sandbox, {"bad": said, "fine": "10"}).run(QUESTION, steps)
    assert (asked.answer, [a.accepted for a in asked.results[0].attempts]) == ("10", [False, True])
    alone = await executor(sandbox, {"bad": said}).run(QUESTION, steps.replace({"0": {"fallback": ()}}))
    assert alone.results[0].failed
    assert node_receipts(alone)[0].asked[0].why_next


async def test_the_deadline_cuts_nothing_off_where_an_accepted_answer_is_at_hand(sandbox: Sandbox) -> None:
    """Whom else to ask is for whoever decides; here the second answer is awaited for nothing."""
    steps = Workflow([{"id": "0", "instruction": QUESTION.instruction, "worker": "fine", "fallback": ("slow",)}])
    terms = Terms(deadline=time.monotonic() + 0.3, decide=lambda attempts: Decision(0, False, 0.7))
    execution = await executor(sandbox, {"fine": "10", "slow": 5.0}).run(QUESTION, steps, terms=terms)
    assert (execution.answer, execution.partial, execution.results[0].probability) == ("10", False, 0.7)


SUM, DOUBLE = "add 2 and 3", "double it"


@pytest.mark.parametrize(("second", "shown"), [("good", True), ("wrong", False)])
async def test_a_program_that_does_not_do_what_the_task_shows_is_put_together_of_other_answers(
    sandbox: Sandbox, second: str, shown: bool
) -> None:
    """No step shows an example of its own; the first worker's second step is wrong."""
    words = "reverse it, then write it in capitals, such as turned('stone') == 'ENOTS'"
    task = asked_task(f"Write a function turned(text): {words}", None, TasksConfig())
    source = "def step(x):\n    return x.{}\n"
    scripts = {
        "first": {"reverse it": "def step(x):\n    return x[::-1]\n", "write it in capitals": source.format("title()")},
        "good": {"write it in capitals": source.format("upper()"), "reverse it": source.format("strip()")},
        "wrong": source.format("lower()"),
    }
    one = {"id": "1", "instruction": "reverse it", "worker": "first", "fallback": [second]}
    other = {**one, "id": "2", "instruction": "write it in capitals", "depends_on": ["1"]}
    steps = Workflow([one, other])
    unchecked = await executor(sandbox, scripts).run(task, steps)
    assert (unchecked.does_as_shown, [result.worker for result in unchecked.results]) == (None, ["first", "first"])
    execution = await executor(sandbox, scripts).run(task, steps, terms=Terms(checks_whole=True))
    assert execution.does_as_shown is shown
    assert [result.worker for result in execution.results] == ["first", "good" if shown else "first"]
