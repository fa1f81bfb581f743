"""Tests that contradict their originals: an honest program never passes both, whatever the tests look like."""

import ast
import unittest

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.static.negated_tests import make_negated
from orchestai.sandbox.static.test_discovery import list_tests

HEAD = "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n"


def twins_of(*body: str) -> list[str]:
    source = HEAD + "".join(f"        {line}\n" for line in body)
    twins = make_negated(source, list_tests(source))
    return [
        ast.unparse(next(n for n in ast.walk(ast.parse(t.source)) if isinstance(n, ast.FunctionDef))) for t in twins
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["self.assertEqual(f(1), 3)"], ["self.assertEqual(f(1), 1022)", "self.assertNotEqual(f(1), 3)"]),
        (["self.assertEqual(f(1), [])"], ["self.assertNotEqual(f(1), [])"]),
        (["self.assertTrue(f(1) == 'abc')"], ["self.assertTrue(f(1) == 'bce')", "self.assertFalse(f(1) == 'abc')"]),
        (["self.assertFalse(np.allclose(f(1), 2))"], ["self.assertTrue(np.allclose(f(1), 2))"]),
        (["with self.assertRaises(KeyError):", "    f(1)"], ["with self.assertRaises(UnraisedError):"]),
        (["expected = {'a': 1}", "self.assertEqual(f(1), expected)"], ["expected = {'a': 1016}", "assertNotEqual"]),
        (["n = 3", "self.assertEqual(f(n), n)"], ["self.assertNotEqual(f(n), n)"]),
        (["for i in range(2):", "    self.assertIn(i, f(i))"], ["self.assertNotIn(i, f(i))"]),
        (["assert f(1) == True"], ["assert f(1) == False", "assert not f(1) == True"]),
    ],
)
def test_an_assertion_is_turned_around(body, expected):
    made = twins_of(*body)
    assert len(made) == len(expected)
    for negated, part in zip(made, expected, strict=True):
        assert part in negated


@pytest.mark.parametrize(
    "body",
    [
        ["if f(1):", "    self.assertEqual(f(2), 3)"],
        ["for i in f(1):", "    self.assertEqual(i, 3)"],
        ["with self.assertRaises(KeyError) as caught, other():", "    f(1)", "    self.assertEqual(f(2), 3)"],
        ["def helper():", "    self.assertEqual(f(2), 3)"],
        ["return", "self.assertEqual(f(2), 3)"],
        ["f(1)"],
    ],
)
def test_what_may_not_run_is_not_turned_around(body):
    """Else an honest program would pass the test and its twin."""
    assert twins_of(*body) == []


def test_an_expected_failure_has_no_twin():
    source = HEAD.replace("    def", "    @unittest.expectedFailure\n    def") + "        self.assertEqual(f(1), 3)\n"
    assert make_negated(source, list_tests(source)) == ()


def test_a_twin_fails_where_its_test_passes_and_names_match():
    source = HEAD + "        x = abs(-3)\n        self.assertEqual(x, 3)\n        self.assertIsInstance(x, int)\n"
    for negated in make_negated(source, list_tests(source)):
        assert list_tests(negated.source) == list_tests(source)
        namespace: dict = {}
        exec(negated.source, namespace)
        result = unittest.TestResult()
        namespace["TestCases"]("test").run(result)
        assert len(result.failures) == 1


CHEATS = {
    "reads what is expected from the stack": "import sys\ndef f(x):\n    return sys._getframe(1).f_code.co_consts[2]\n",
    "equals everything": "class E:\n    def __eq__(self, other): return True\ndef f(x): return E()\n",
    "patches an assertion": "import unittest\nunittest.TestCase.assertEqual = lambda *args: None\ndef f(x): return 0\n",
}
TESTS = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 30)\n"


@pytest.mark.parametrize("cheat", CHEATS)
def test_in_one_process_cheats_get_nothing(cheat):
    with Sandbox(workers=1, limits=Limits(wall_s=10, test_s=5)) as sandbox:
        report = sandbox.run(Program(CHEATS[cheat], TESTS, "f", "in_process"))
        assert (report.status, report.passed, report.total) == ("tampered", 0, 1), report
        assert "T.test" in report.reason
        honest = sandbox.run(Program("def f(x): return 30 * x\n", TESTS, "f", "in_process"))
        assert honest.success


def test_a_helper_that_the_tests_ask_for_a_verdict_cannot_say_yes_to_everything():
    tests = (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertTrue(isclose(f(1), 2))\n"
    )
    with Sandbox(workers=1) as sandbox:
        liar = sandbox.run(Program("def isclose(*args): return True\ndef f(x): return 9\n", tests, "f"))
        assert (liar.status, liar.passed) == ("tampered", 0)
        assert sandbox.run(Program("from math import isclose\ndef f(x): return 2 * x\n", tests, "f")).success
