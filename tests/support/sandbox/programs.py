"""Programs and tests that several test files run in the sandbox."""

import textwrap

ADD = "def task_func(a, b):\n    return a + b\n"
ADD_TESTS = """
import unittest
class TestCases(unittest.TestCase):
    def test_a(self): self.assertEqual(task_func(1, 2), 3)
    def test_b(self): self.assertEqual(task_func(5, 7), 12)
    def test_c(self): self.assertEqual(task_func(-1, 1), 0)
    def test_d(self): self.assertEqual(task_func(100, 23), 123)
"""


def case(body: str) -> str:
    """Source of a test class whose only test has this body."""
    head = "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n"
    return head + textwrap.indent(body.strip("\n"), " " * 8) + "\n"
