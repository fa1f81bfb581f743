"""Answers to maths questions are judged by what they mean, and no text makes the judge fail, hang or pay twice."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from orchestai.outcome import Scored
from orchestai.rewards.maths import final_answer, math_reward_fn
from orchestai.sandbox import Limits, Sandbox
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=["math_verify"], limits=Limits(wall_s=3, test_s=1.5)) as sandbox:
        yield sandbox


def question(*answers: str) -> Task:
    return Task(task_id="q", suite="gsm8k", instruct_prompt="?", answers=answers)


@pytest.mark.parametrize(
    ("text", "final"),
    [
        (r"so \boxed{1} or \boxed{\frac{1}{2}}.", r"\boxed{\frac{1}{2}}"),
        (r"\boxed{open", r"\boxed{open"),
        ("<answer>4</answer> later 5", "4"),
        ("3 + 4\n#### 7\nand 9", "7"),
        ("seven\0 is 7", "seven is 7"),
        ("", ""),
    ],
)
def test_the_final_answer_is_the_marked_one(text, final):
    assert final_answer(text) == final


@pytest.mark.parametrize(
    ("answer", "text", "value"),
    [
        ("18", "#### 18", 1),
        ("1234", r"\boxed{1,234}", 1),
        ("18", "it is 18 eggs", 1),
        (r"\frac{1}{2}", r"\boxed{0.5}", 1),
        (r"\frac{1}{3}", r"\boxed{0.3}", 0),
        (r"\left( 3, \frac{\pi}{2} \right)", r"\boxed{(3, \pi/2)}", 1),
        ("18", r"\boxed{17} \boxed{18} \boxed{19}", 0),
        ("72", r"\boxed{73=72}", 0),
        ("72", r"\boxed{x = 72}", 1),
        ("72", r"\boxed{x = \frac{144}{2} = 72}", 1),
    ],
)
async def test_equal_means_are_equal_answers(sandbox, answer, text, value):
    assert await math_reward_fn(question(answer), text, sandbox) == Scored(value)


async def test_an_answer_that_hangs_costs_itself_alone(sandbox):
    hangs = math_reward_fn(question("1"), r"\boxed{9^{9^{9^9}}}", sandbox)
    right = math_reward_fn(question(r"\sqrt{4}"), r"\boxed{2}", sandbox)
    assert await asyncio.gather(hangs, right) == [Scored(0.0), Scored(1.0)]


def test_gsm8k_answers_are_what_follows_the_hashes(tmp_path):
    path = tmp_path / "test.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"question": "How many?", "answer": "1,000 + 234\n#### 1,234"}) + "\n")
    task = load_suite("gsm8k", str(path)).split("test")[0]
    assert (task.task_id, task.answers, task.instruction) == ("gsm8k/test/0", ("1234",), "How many?")


@pytest.mark.parametrize(
    ("suite", "file", "count"),
    [
        ("gsm8k", "gsm8k/test.jsonl.gz", 1319),
        ("math500", "math500/test.jsonl.gz", 500),
        ("aime", "math_small/aime24.jsonl.gz", 30),
    ],
)
async def test_public_sets_load_and_their_own_answers_are_right(sandbox, shared_data, suite, file, count):
    tasks = load_suite(suite, str(shared_data / file)).split("test")
    assert len(tasks) == count
    for task in tasks[:: count // 4]:
        assert await math_reward_fn(task, rf"So it is \boxed{{{task.answers[0]}}}.", sandbox) == Scored(1.0)
