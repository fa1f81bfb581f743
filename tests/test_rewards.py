"""The reward: known answers, and that what could not be judged has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.config import Phase2Config, RewardsConfig
from orchestai.execution.result import Attempt, Execution, SubtaskResult
from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.reward import reward, reward_parts
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow

WEIGHTS = Phase2Config(alpha=10.0, beta=0.1, gamma_latency=0.01, shaped_reward=0.1)


def execution(outcome, cost=2.0, latency_ms=100.0, checks=(True, None, False)) -> Execution:
    results = tuple(
        SubtaskResult(id=str(i), status="done", attempts=(Attempt(worker="w", passed_check=check),))
        for i, check in enumerate(checks)
    )
    return Execution(
        task_id="t",
        workflow=Workflow([Subtask(id=str(i), instruction="x") for i in range(len(checks))]),
        results=results,
        outcome=outcome,
        total_cost=cost,
        total_latency_ms=latency_ms,
    )


@pytest.mark.parametrize(
    ("success", "gate", "fraction", "expected"),
    [
        ("fraction", False, 0.5, 5.0 - 0.2 - 1.0 + 0.1),
        ("fraction", True, 0.5, 5.0 - 0.5 * 1.2 + 0.1),
        ("all", False, 0.5, 0.0 - 1.2 + 0.1),
        ("all", False, 1.0, 10.0 - 1.2 + 0.1),
        ("all", True, 0.5, 0.1),
        ("all", True, 0.0, 0.1),
    ],
)
def test_known_answers(success, gate, fraction, expected):
    rewards = RewardsConfig(success=success, gate_costs=gate)
    outcome = reward(execution(Scored(fraction)), WEIGHTS, rewards)
    assert isinstance(outcome, Scored)
    assert outcome.value == pytest.approx(expected)


def test_the_parts_are_what_each_term_gives_or_takes():
    parts = reward_parts(execution(Scored(0.5)), WEIGHTS, RewardsConfig(success="fraction"))
    expected = {"reward_success": 5.0, "reward_cost": -0.2, "reward_latency": -1.0, "reward_checks": 0.1}
    assert parts == pytest.approx(expected)
    assert reward_parts(execution(Unscorable("recording_missing", "no recording")), WEIGHTS, RewardsConfig()) == {}


@given(st.floats(0, 1), st.floats(0, 100), st.floats(0, 1e5), st.sampled_from(["fraction", "all"]), st.booleans())
def test_the_parts_add_up_to_the_reward(fraction, cost, latency_ms, success, gate):
    run, rewards = execution(Scored(fraction), cost, latency_ms), RewardsConfig(success=success, gate_costs=gate)
    assert sum(reward_parts(run, WEIGHTS, rewards).values()) == reward(run, WEIGHTS, rewards).value


def test_with_gated_costs_a_cheap_failure_never_beats_a_dear_success():
    gated = RewardsConfig(success="all", gate_costs=True)
    cheap_failure = reward(execution(Scored(0.9), cost=0.0, latency_ms=0.0), WEIGHTS, gated)
    dear_success = reward(execution(Scored(1.0), cost=20.0, latency_ms=500.0), WEIGHTS, gated)
    assert dear_success.value > cheap_failure.value


def test_what_could_not_be_judged_has_no_reward():
    """A zero would teach the planner to avoid plans that met a broken server."""
    reason = Unscorable("recording_missing", "no recording")
    assert reward(execution(reason), WEIGHTS, RewardsConfig()) is reason


async def test_a_program_is_judged_by_the_tasks_hidden_tests():
    tests = (
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(double(2), 4)\n"
        "    def test_b(self): self.assertEqual(double('a'), 'aa')\n"
    )
    task = Task(task_id="t", suite="s", instruct_prompt="double it", test=tests, entry_point="double")
    with Sandbox(workers=1) as sandbox:
        report = await judge(sandbox, task, "def double(x):\n    return 2 * x if x == 2 else None")
    assert report.outcome() == Scored(0.5)


async def test_a_task_whose_library_is_missing_judges_nobody():
    """Every program would fail, and phase 2 would learn from that."""
    tests = "import no_such_library\nimport unittest\nclass T(unittest.TestCase):\n    def test(self): pass"
    task = Task(task_id="t", suite="s", instruct_prompt="", test=tests, entry_point="f")
    with Sandbox(workers=1) as sandbox:
        report = await judge(sandbox, task, "def f(): pass")
    assert report.outcome() == Unscorable(
        "sandbox", "sandbox: infra_error: not installed: no_such_library; install them with pip"
    )


async def test_auto_isolation_is_what_the_reference_program_needs(tmp_path):
    """The tests of the one compare plain values, those of the other look at the program's own globals."""
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        "
    with Sandbox(workers=1) as sandbox:
        for body, expected in (
            ("self.assertEqual(f(), 3)", "split"),
            ("self.assertIs(f.__globals__, globals())", "shared"),
        ):
            task = Task(
                task_id=expected,
                suite="own",
                instruct_prompt="Return 3.",
                complete_prompt="def f():\n",
                canonical_solution="    return 3\n",
                test=tests + body,
                entry_point="f",
                isolation="auto",
            )
            report = await judge(sandbox, task, task.canonical_program)
            assert (report.success, report.isolation) == (True, expected)
            assert not (await judge(sandbox, task, "f = 3")).success
