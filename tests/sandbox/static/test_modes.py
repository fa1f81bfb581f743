"""How tests are judged follows from their source: sealed where copies of plain data do, else open."""

import textwrap

import pytest

from orchestai.sandbox.static.modes import objection_to_copies, only_calls_and_compares
from orchestai.sandbox.static.test_discovery import with_given


def written(body: str, head: str = "") -> str:
    return f"{head}\nimport unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n" + textwrap.indent(
        body, " " * 8
    )


PLAIN = [
    "self.assertEqual(task_func(1, b=[2]), {'a': (3, None)})",
    "for given, wanted in [(1, 2), (3, 4)]:\n    with self.subTest(given): self.assertEqual(task_func(given), wanted)",
    "with self.assertRaises(ValueError) as caught: task_func(-1)\nself.assertIn('negative', str(caught.exception))",
    "given = [3]\ngiven.append(2)\nresult = task_func(given)\nself.assertEqual((result, given), ([2, 3], [3, 2]))",
    "import math\nassert math.isclose(task_func(2), 1.41, abs_tol=0.01)",
    "self.assertIsNone(task_func())\nself.assertIs(task_func(1), True)",
    "self.assertTrue(task_func('a').startswith('b'))\nself.assertEqual(sorted(task_func(1).items())[0], ('a', 1))",
    "frame = task_func(np.array([1]))\nself.assertEqual(frame.shape, (1, 2))",
]
WITHOUT_A_REFERENCE_OPEN = [
    "self.assertEqual(task_func().total, 3)",
    "task_func().items.append(1)",
    "self.assertEqual(task_func(lambda x: x), 3)",
    "self.assertEqual(next(task_func()), 1)",
    "self.assertEqual(task_func(1) + task_func(2), task_func(3))",
]
OPEN = [
    "from unittest.mock import patch\nwith patch('os.getcwd'): task_func()",
    "import logging\nwith self.assertLogs() as logs: task_func()",
    "self.assertEqual(frame.query(task_func()).shape, (1, 1))",
    "import pickle\nself.assertEqual(pickle.load(open(task_func(), 'rb')), 1)",
    "given = []\nself.assertIs(task_func(given), given)",
    "result = task_func([1])\nresult.append(2)\nself.assertEqual(task_func([1]), [1])",
    "given = [[1]]\nresult = task_func(given)\ngiven[0].append(2)\nself.assertEqual(result, [[1]])",
    "import os\nos.environ['A'] = '1'\ntask_func()",
]


@pytest.mark.parametrize("body", PLAIN)
def test_tests_that_call_and_compare_plain_data_are_sealed(body):
    assert objection_to_copies(written(body), "task_func") == ""
    assert only_calls_and_compares(written(body), "task_func")


@pytest.mark.parametrize("body", WITHOUT_A_REFERENCE_OPEN)
def test_whatever_may_mean_more_is_open_unless_a_reference_shows_that_copies_do(body):
    assert not only_calls_and_compares(written(body), "task_func")


@pytest.mark.parametrize("body", OPEN)
def test_tests_that_copies_would_get_wrong_are_open_whatever_a_reference_says(body):
    assert objection_to_copies(written(body), "task_func")


def test_what_the_prompt_defines_stands_before_the_tests():
    given = "import numpy as np\ndef helper(x): return x\ndef task_func(x):\n    '''Do.'''\n"
    found = with_given("np.array(helper(1)); re.sub; task_func", given, "task_func")
    assert found.splitlines()[:3] == ["if True:", "    import numpy as np", "    def helper(x):"]
    assert "    import re as re" in found.splitlines()
    assert "def task_func" not in found
