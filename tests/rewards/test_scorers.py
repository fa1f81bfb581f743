"""One registry of scorers serves planners and agents; what cannot be scored is refused before anything is paid."""

import pytest

from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.maths import first_number, numeric_reward_fn
from orchestai.rewards.scorers import judge
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task

TESTS = "import unittest\n\nclass T(unittest.TestCase):\n" + "".join(
    f"    def test_{n}(self):\n        self.assertEqual(task_func(), {n})\n" for n in (1, 2)
)


def task(*answers: str, scorer: str = "", **fields: object) -> Task:
    return Task(task_id="t", suite="own", instruct_prompt="How many?", answers=answers, scorer=scorer, **fields)


def length(task: Task, answer: str, sandbox: Sandbox) -> float:
    return len(answer) / 4


def breaks(task: Task, answer: str, sandbox: Sandbox) -> float:
    raise ConnectionError("down")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("asked", "answer", "value"),
    [
        (task("Paris"), "paris.", 1.0),
        (task("Paris"), "It is Paris", 0.0),
        (task("12.0"), "12", 1.0),
        (task("-5"), "5", 0.0),
        (task("Paris"), "It is <answer>Paris</answer>", 1.0),
        (task("x b", scorer="f1"), "b c", 0.5),
        (task("12", scorer="numeric"), "3 + 9 = 12 apples", 1.0),
        (task("x + 1", scorer="maths"), r"\boxed{1 + x}", 1.0),
        (task(scorer=f"{__name__}:length"), "four", 1.0),
        (task(test=TESTS), "def task_func(): return 1", 0.5),
        (task("1", test=TESTS, scorer="unit_tests"), "def task_func(): return 2", 0.5),
    ],
)
async def test_a_task_is_judged_by_its_scorer(asked, answer, value, sandbox):
    judged = await judge(asked, answer, sandbox)
    assert judged.outcome == Scored(value)
    assert (judged.report is not None) == asked.wants_program


async def test_a_scorer_that_breaks_down_is_no_zero(sandbox):
    outcome = (await judge(task(scorer=f"{__name__}:breaks"), "x", sandbox)).outcome
    assert isinstance(outcome, Unscorable)
    assert outcome.kind == "scorer"
    assert isinstance((await judge(task(), "x", sandbox)).outcome, Unscorable)


READ = [
    ("The answer is 42 km.", 42),
    ("1.2005 thousand", 1200.5),
    ("−7.5", -7.5),
    ("x=-2", -2),
    ("1/4 cup", 0.25),
    ("9" * 100, None),
]


def test_numbers_are_read_out_of_words_and_units():
    found = [(text, first_number(text)) for text, _ in READ]
    assert [(text, None if number is None else float(number)) for text, number in found] == READ


ROUNDED = [
    ("3.14", "about 3.14159", True),  # rounds to the reference
    ("3.14", "3", False),
    ("12", "12.4", False),  # a whole number is not rounded to
    ("0.3", "0.30000000000000004", True),
    ("12", "12 of 30", False),  # the last number answers
    ("12", r"\boxed{12}, out of 30", True),
]


def test_numeric_tolerates_rounding_and_units_alone():
    for reference, answer, right in ROUNDED:
        assert numeric_reward_fn(task(reference), answer, None) == Scored(float(right)), (reference, answer)


def test_a_task_may_set_its_own_tolerance():
    close = task("100", details={"tolerance": 5})
    assert [numeric_reward_fn(close, text, None).value for text in ("95", "94.9")] == [1.0, 0.0]
