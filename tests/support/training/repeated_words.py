"""Words of a text, counted and repeated: a task of three steps, with a right program for each."""

from __future__ import annotations

from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

SPLIT = "split it into words (for example `'a b'` -> `['a', 'b']`)"
COUNT = "count its letters (for example `'a b'` -> `2`)"
REPEAT = "repeat the first as often as the second says (for example `['a'], 2` -> `['a', 'a']`)"
TASK = Task(
    task_id="composition/0",
    suite="composition",
    instruct_prompt=f"Write `task_func(text)`. First, {SPLIT}. Also, {COUNT}. Finally, {REPEAT}. "
    "For example, `task_func('a b')` returns `['a', 'b', 'a', 'b']`.",
    test="import unittest\n\n\nclass TestCases(unittest.TestCase):\n"
    "    def test_1(self):\n        self.assertEqual(task_func('a b'), ['a', 'b', 'a', 'b'])\n"
    "    def test_2(self):\n        self.assertEqual(task_func('x'), ['x'])\n",
    parameters=("text",),
)
SOLUTIONS = {
    SPLIT: "def step(x):\n    return x.split()",
    COUNT: "import re\n\ndef step(x):\n    return len(re.findall(r'\\w', x))",
    REPEAT: "def step(a, b):\n    return a * b",
    TASK.instruction: "def task_func(text):\n    return text.split() * sum(map(str.isalpha, text))",
}
WRONG = "def step(*args):\n    return None"


def workflow(
    first: str = "good", second: str = "good", third: str = "good", fallback: tuple[str, ...] = ()
) -> Workflow:
    return Workflow(
        [
            {"id": "words", "instruction": SPLIT, "worker": first, "fallback": fallback},
            {"id": "letters", "instruction": COUNT, "worker": second},
            {"id": "all", "instruction": REPEAT, "worker": third, "depends_on": ("words", "letters")},
        ]
    )


def whole(worker: str = "good") -> Workflow:
    return Workflow([{"id": "0", "instruction": TASK.instruction, "worker": worker}])
