"""Maths with tools ends where the verifier says so, and every role is judged by what the reference answer says."""

from __future__ import annotations

import pytest

from orchestai.agents.workflows.maths import Maths
from orchestai.outcome import Scored
from orchestai.sandbox import Limits, Sandbox
from orchestai.tasks.task import Task
from support.agents.scripted import rewards, scripted_agents

TASK = Task(task_id="q", suite="gsm8k", instruct_prompt="What is 6 times 7?", answers=("42",))
YES, NO = "<verdict>CORRECT</verdict>", "Wrong. <verdict>INCORRECT</verdict>"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(limits=Limits(wall_s=3, test_s=1)) as sandbox:
        yield sandbox


async def play(sandbox, executor, verifier, **settings):
    script = {"analyser": ["Multiply."], "executor": executor, "verifier": verifier}
    return await Maths(Maths.Args(**settings), sandbox).run(TASK, scripted_agents(TASK, script))


async def test_a_right_answer_that_is_verified_ends_it(sandbox):
    episode = await play(sandbox, [r"\boxed{42}"], [YES])
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("analyser", 1), ("executor", 1), ("verifier", 1)]
    expected = {
        "success": 1,
        "final_success": 1,
        "analyser_runs": 1,
        "executor_attempts": 1,
        "executor_success_rate": 1,
        "tool_calls": 0,
        "verifier_checks": 1,
        "verifier_accuracy": 1,
        "total_iterations": 1,
    }
    assert episode.metrics.items() >= expected.items()


async def test_the_reference_answer_never_steers_the_loop(sandbox):
    episode = await play(sandbox, [r"\boxed{42}", r"\boxed{1}", r"\boxed{1}"], [NO, NO, "?"])
    assert episode.outcome == Scored(0.0)
    assert rewards(episode)[1:] == [
        *(("executor", 1), ("executor", 0), ("executor", 0)),
        *(("verifier", 0), ("verifier", 1), ("verifier", 0)),
    ]
    assert episode.metrics["total_iterations"] == 3
