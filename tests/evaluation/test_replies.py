"""Replies that are programs count for what they do: under any function name, and a cascade pays for all it asks."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.data.tables.outcome_table import TableOutcome, table_of
from orchestai.errors import UserError
from orchestai.evaluation.tables.replies import (
    ProgramReplies,
    chain_outcomes,
    evaluate_replies,
    matching_tasks,
    run_replies,
)
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.prompting.source import reply_program

TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_1(self):
        assert double(1) == 2
    def test_2(self):
        assert double(3) == 6
"""


def double(source: str | None, argument: int = 4) -> int:
    assert source is not None
    namespace: dict = {}
    exec(source, namespace)
    return namespace["double"](argument)


@pytest.mark.parametrize(
    "reply",
    [
        "def double(x):\n    return 2 * x",
        "Sure!\r\n```python\r\ndef twice(x):\r\n    return 2 * x\r\n```\r\nHere is how:\r\n```\nprint(1)\n```",
        " \n[PYTHON]\ndef twice(x):\n    return 2 * x\n[/PYTHON]\n[TESTS]\nassert twice(1) == 2\n[/TESTS]",
        "Here it is:\n\ndef twice(x):\n    return 2 * x\n\nThis function doubles.",
        "```python\ndef add(a, b):\n    return a + b\ndef twice(x):\n    return add(x, x)\nprint(input())\n```",
        "```python\ndef half(x):\n    return x / 2\ndef double(x):\n    return 2 * x\n```",
        "```python\ndef main():\n    pass\ndef twice(x, by=2):\n    return by * x\nresult = twice(undefined)\n```",
        "```python\nT = []\nfor n in range(3):\n    T.append(n)\ndef f(x):\n    return T[2] * x\n```",
        "```python\ndef two():\n    return 2\nCACHE = two()\ndef twice(x):\n    return CACHE * x\nx = twice(y)\n```",
        "```python\ntry:\n    import nowhere\nexcept ImportError:\n    TWO = 2\ndef twice(x):\n    return TWO * x\n```",
        "```python\nTWO = 2\ndef twice(x):\n    return TWO * x\nassert twice(1) == 3\n```",
    ],
)
def test_the_function_of_a_reply_is_found_under_the_tests_name(reply):
    assert double(reply_program(reply, "double", 1)) == 8


def task() -> Task:
    return Task(
        task_id="t/1",
        suite="t",
        split="test",
        instruct_prompt="Double a number.\nYour code should satisfy:\nassert double(1) == 2",
        test=TESTS,
        entry_point="double",
        parameters=("x",),
    )


REPLIES = {
    "right": "def f(x):\n    return 2 * x",
    "visible": "def f(x):\n    return 2",
    "wrong": "def f(x):\n    return x",
    "silent": "No.",
}


def test_replies_are_run_against_all_tests_and_verdicts_are_kept(tmp_path):
    outcomes = [
        TableOutcome("", "Double a number.", worker, float(worker != "wrong"), cost_usd=0.1, reply=reply)
        for worker, reply in REPLIES.items()
    ]
    table = table_of("t", [*outcomes, TableOutcome("", "Another.", "right", 1.0, reply="")])
    tasks, ambiguous = matching_tasks(table, [task()])
    assert (list(tasks), ambiguous) == ([0], 0)
    assert matching_tasks(table, [task(), task().model_copy(update={"test": TESTS + "\n"})]) == ({}, 1)
    with Sandbox(workers=1, strictness="auto") as sandbox:
        found = run_replies(table, tasks, sandbox, tmp_path)
    np.testing.assert_array_equal(found.table.score, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(found.visible, [[1, 1, 0, 0]])
    assert found.agreement() == (pytest.approx(1 / 3), 1.0)
    with pytest.raises(RuntimeError, match="closed"):
        run_replies(table, {0: task().model_copy(update={"test": TESTS + "\n"})}, sandbox, tmp_path)
    again = run_replies(table, tasks, sandbox, tmp_path)
    np.testing.assert_array_equal(again.table.score, found.table.score)


def replies(score, visible, cost) -> ProgramReplies:
    outcomes = [
        TableOutcome("", f"q{row}", f"w{column}", value, cost_usd=cost[column])
        for row, values in enumerate(score)
        for column, value in enumerate(values)
    ]
    table = table_of("t", outcomes)
    return ProgramReplies(table, np.array(visible, dtype=float), table.score)


def test_a_chain_stops_at_the_first_reply_that_passes_the_visible_test():
    own = replies([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1], [1, 0], [1, 1]], [1.0, 10.0])
    score, cost = chain_outcomes(own, (0, 1))
    assert score.tolist() == [1, 1, 0]
    assert cost.tolist() == [11, 1, 1]


FEATURES = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


def test_the_best_cascades_are_chosen_on_training_queries_and_within_their_budget():
    """The small worker is right on half the queries, and its visible test says when; the other one is right on all."""
    half = [[float(row % 2), 1.0] for row in range(60)]
    evaluation = evaluate_replies(replies(half, half, [0.001, 0.1]), FEATURES, [["w0", "w1"]], seeds=(0, 1))
    success, cost = evaluation.intervals("w0 > w1")
    assert success.mean == 1
    assert cost.mean == pytest.approx(1000 * (0.001 + 0.05), rel=0.3)
    assert evaluation.chosen["best_single"] == ["w1", "w1"]
    assert evaluation.chosen["cascade"] == ["w0", "w0"]
    rows = evaluation.to_dict()["t"]
    assert set(rows) == {"w0", "w1", "w0 > w1", "best_single", "cascade", "ours", "ours_at_cascade_cost"}
    assert rows["cascade"]["usd_per_1000"]["mean"] == pytest.approx(1)
    assert rows["ours"]["usd_per_1000"]["mean"] == pytest.approx(1)
    assert evaluation.to_table().row_count == 7
    without = evaluate_replies(replies(half, half, [0.1, 0.1]), FEATURES, seeds=(0,))
    assert "cascade" not in without.routers("success")
    assert without.notes
    with pytest.raises(UserError, match="no worker 'w7'"):
        evaluate_replies(replies(half, half, [0.001, 0.1]), FEATURES, [["w7"]])
