"""Tests that functions of the program decorate: what runs under their names is the program's to say."""

import pytest

from orchestai.sandbox import Program, Sandbox
from orchestai.sandbox.static.replaced_tests import find_replaced_tests

TESTS = """
import unittest
from unittest.mock import patch
class TestCases(unittest.TestCase):
    {0}
    def test_a(self):
        self.assertEqual(task_func(1), 3)
    def test_b(self):
        self.check(2)
    {1}
    def check(self, n):
        self.assertEqual(task_func(n), n + 2)
    {2}
    def setUp(self):
        self.n = 1
    {3}
"""
BOTH = {"TestCases.test_a", "TestCases.test_b"}


@pytest.mark.parametrize(
    ("parts", "replaced"),
    [
        (("@timed", "", "", ""), {"TestCases.test_a"}),
        (("@tools.retry(3)", "", "", ""), {"TestCases.test_a"}),
        (("@task_func", "", "", ""), {"TestCases.test_a"}),
        (("", "@timed", "", ""), {"TestCases.test_b"}),
        (("", "", "@timed", ""), BOTH),
        (("", "", "", "test_a = timed(test_a)"), {"TestCases.test_a"}),
        (("@unittest.skipIf(slow(), '')", "@patch('os.getcwd', new=timed)", "@staticmethod", ""), set()),
    ],
)
def test_tests_that_the_program_may_replace_are_found(parts, replaced):
    assert find_replaced_tests(TESTS.format(*parts), "task_func") == replaced


def test_functions_that_do_not_ask_the_program_may_be_decorated():
    tests = TESTS.format("", "", "", "def test_c(self):\n        @timed\n        def f(a): return a")
    assert find_replaced_tests(tests, "task_func") == set()


@pytest.mark.parametrize("answer", ["list", "ValueError", "first[0]", "lambda *a: None"])
def test_nothing_that_a_decorator_answers_with_is_paid(answer):
    code = f"first = []\ndef timed(f):\n    first.append(f)\n    return {answer}\ndef task_func(n): return 3\n"
    tests = TESTS.format("@timed", "", "", "@timed\n    def test_c(self): self.assertEqual(task_func(2), 4)")
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run(Program(code, tests)).passed == 0
