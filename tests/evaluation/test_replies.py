"""Replies that are programs count for what they do: under any function name."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.data.outcome_table import TableOutcome, table_of
from orchestai.evaluation.tables.replies import (
    matching_tasks,
    run_replies,
)
from orchestai.sandbox import Sandbox
from orchestai.tasks.program_source import reply_program
from orchestai.tasks.task import Task

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
    seen = found.seen()
    assert seen.same[0, 0] == seen.same[0, 1] != seen.same[0, 2] != seen.same[0, 3]
    assert [seen.kinds[kind] for kind in seen.shown[0]] == ["passes", "passes", "refused", "refused"]
    with pytest.raises(RuntimeError, match="closed"):
        run_replies(table, {0: task().model_copy(update={"test": TESTS + "\n"})}, sandbox, tmp_path)
    again = run_replies(table, tasks, sandbox, tmp_path)
    np.testing.assert_array_equal(again.table.score, found.table.score)
