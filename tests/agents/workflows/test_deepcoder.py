"""DeepCoder with scripted roles ends as counted by hand, its loop sees visible tests only, and no words break it."""

from __future__ import annotations

import json
import re

import pytest

from orchestai.agents.workflow import attempt
from orchestai.agents.workflows.deepcoder import DeepCoder
from orchestai.outcome import Scored, Unscorable
from orchestai.sandbox import Limits, Sandbox
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from support.agents.scripted import rewards, scripted_agents

TESTS = """\
import unittest

class Hidden(unittest.TestCase):
    def test_two(self):
        self.assertEqual(double(2), 4)

    def test_negative(self):
        self.assertEqual(double(-3), -6)

    def test_text(self):
        self.assertEqual(double("ab"), "abab")

    def test_zero(self):
        self.assertEqual(double(0), 0)
"""
TASK = Task(
    task_id="double",
    suite="written",
    instruct_prompt="Write `double`, which gives twice its argument, such that `double(3)` returns `6`.",
    test=TESTS,
    entry_point="double",
)
RIGHT = "```python\ndef double(x):\n    return x + x\n```"
HALF = "def double(x):\n    return x * x"  # hidden: 2 and 0
PLAUSIBLE = "def double(x):\n    return abs(x) * 2"  # visible: passes; hidden: 2, "ab" fails, 0, -3 fails
SCRIPT = {"generator": [HALF], "test_runner": ["It squares."], "refiner": [RIGHT]}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(limits=Limits(wall_s=3, test_s=0.5)) as sandbox:
        yield sandbox


async def play(sandbox, script, task=TASK, **settings):
    return await DeepCoder(DeepCoder.Args(**settings), sandbox).run(task, scripted_agents(task, script))


async def test_a_right_program_ends_it_at_once(sandbox):
    episode = await play(sandbox, {"generator": [RIGHT]})
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("generator", 1.0)]
    expected = {
        "success": 1,
        "final_success": 1,
        "generator_success": 1,
        "generator_visible_success": 1,
        "visible_success": 1,
        "test_runner_analyses": 0,
        "refiner_attempts": 0,
        "total_iterations": 0,
    }
    assert episode.metrics.items() >= expected.items()


async def test_the_refiner_repairs_what_the_visible_test_found(sandbox):
    episode = await play(sandbox, SCRIPT)
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("generator", 0.5), ("test_runner", 0.5), ("refiner", 0.5)]
    counted = {"generator_success": 0, "test_runner_analyses": 1, "refiner_attempts": 1, "refiner_success_rate": 1}
    assert episode.metrics.items() >= (counted | {"total_iterations": 1, "final_success": 1}).items()


async def test_a_refiner_that_never_repairs_stops_at_the_limit(sandbox):
    script = {"generator": [HALF], "test_runner": ["?"] * 3, "refiner": ["def double(x): return 1", HALF, HALF]}
    episode = await play(sandbox, script)
    assert episode.outcome == Scored(0.5)
    assert [reward for role, reward in rewards(episode) if role == "refiner"] == [-0.5, 0.5, 0.0]
    assert [reward for role, reward in rewards(episode) if role == "test_runner"] == [-0.5, 0.5, 0.0]
    counted = {"refiner_attempts": 3, "refiner_success_rate": 0, "total_iterations": 3, "final_success": 0}
    assert episode.metrics.items() >= counted.items()


async def test_hidden_tests_never_steer_the_loop(sandbox):
    episode = await play(sandbox, {"generator": [PLAUSIBLE]})
    assert episode.outcome == Scored(0.5)
    assert episode.metrics.items() >= {"visible_success": 1, "final_success": 0, "total_iterations": 0}.items()
    assert "test_negative" not in (await play(sandbox, SCRIPT)).text


@pytest.mark.parametrize("words", ["", "\x00\x01\x7f", "\ud800 text", "```python\n", "def double(x", "`" * 5000])
async def test_whatever_a_role_writes_is_a_zero_at_worst(sandbox, words):
    script = {"generator": [words], "test_runner": [words], "refiner": [words]}
    script = {role: [text.encode("utf-8", "replace").decode() for text in texts] for role, texts in script.items()}
    episode = await play(sandbox, script, max_refinement_iterations=1)
    assert episode.outcome == Scored(0.0)
    assert episode.metrics["refiner_attempts"] == 1


async def test_a_reward_function_of_the_user_judges(sandbox):
    async def length(task, answer, sandbox):
        return float("abs" in answer)

    episode = await play(sandbox, {"generator": [PLAUSIBLE]}, reward_function=length)
    assert episode.outcome == Scored(1.0)
    assert DeepCoder.Args(reward_function="math:sqrt").reward_function(4) == 2
    assert DeepCoder.Args().model_dump(mode="json")["reward_function"] == "orchestai.rewards.unit_tests:code_reward_fn"
    with pytest.raises(ValueError, match="no scorer 'code_reward'"):
        DeepCoder.Args(reward_function="code_reward")


async def test_what_cannot_be_judged_is_no_zero(sandbox):
    def down(task, answer, sandbox):
        return Unscorable("scorer", "the judge is down")

    workflow = DeepCoder(DeepCoder.Args(reward_function=down), sandbox)
    episode = await attempt(workflow, TASK, scripted_agents(TASK, {"generator": [RIGHT]}))
    assert episode.outcome == Unscorable("scorer", "the judge is down")


def records(tmp_path, **fields):
    path = tmp_path / "deepcoder.jsonl"
    path.write_text(json.dumps({"problem": "Add.", "metadata": "{}", **fields}) + "\n")
    return load_suite("deepcoder", str(path)).split("train")[0]


async def test_programs_that_read_standard_input_are_judged_by_what_they_print(sandbox, tmp_path):
    pairs = [(1, 2), (3, 4), (50, 60), (7, 8)]
    tests = [{"input": f"{a}\n{b}\n", "output": f"{a + b}\n", "type": "stdin_stdout"} for a, b in pairs]
    task = records(tmp_path, tests=json.dumps(tests))
    right = "a = int(input())\nb = int(input())\nprint(a + b)"
    script = {"generator": ["print(3)"], "test_runner": ["It prints 3."], "refiner": [right]}
    episode = await play(sandbox, script, task)
    assert rewards(episode) == [("generator", 0.0), ("test_runner", 1.0), ("refiner", 1.0)]
    read = "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()"
    assert (await play(sandbox, {"generator": [read]}, task)).outcome == Scored(1.0)


async def test_the_workflow_in_the_documentation_runs(sandbox, repository):
    text = (repository / "docs" / "agents" / "workflows.md").read_text()
    namespace: dict = {"__name__": "pair"}
    exec(re.search(r"```python\n(.*?)\n```\n", text, re.DOTALL)[1], namespace)
    pair = namespace["Pair"]
    agents = scripted_agents(TASK, {"navigator": ["Add it to itself."], "driver": [RIGHT]})
    episode = await pair(pair.Args(), sandbox).run(TASK, agents)
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("navigator", pytest.approx(0.996)), ("driver", 1.0)]
