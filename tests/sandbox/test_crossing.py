"""What honest programs find in the sandbox, and what crosses from them to tests in another process."""

import textwrap

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.inside.ipc.exceptions import put_together

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=20, load_s=10, test_s=5, memory_mb=512)) as sandbox:
        yield sandbox


def judge(sandbox, code, *bodies, isolation="sealed"):
    """What came of a test with each of these bodies."""
    report = sandbox.run(Program(code, _tests(bodies), isolation=isolation))
    assert report.status == "ok", report.reason
    return [test.message or test.outcome for test in report.tests]


def _tests(bodies):
    methods = (f"    def test_{i}(self):\n{textwrap.indent(body, ' ' * 8)}\n" for i, body in enumerate(bodies))
    return "import unittest\nclass TestCases(unittest.TestCase):\n" + "".join(methods)


EXCEPTIONS = {
    "open('nowhere')": ("FileNotFoundError", "str(error) == \"[Errno 2] No such file or directory: 'nowhere'\""),
    "exit(3)": ("SystemExit", "error.code == 3"),
    "eval('1 +')": ("SyntaxError", "'invalid syntax' in str(error)"),
    "json.loads('[')": ("json.JSONDecodeError", "error.pos == 1 and error.doc == '['"),
    "sqlite3.connect(':memory:').execute('no')": ("sqlite3.OperationalError", "'syntax error' in str(error)"),
    "zipfile.ZipFile(__import__('io').BytesIO(b'no'))": ("zipfile.BadZipFile", "'not a zip' in str(error)"),
}


@pytest.mark.parametrize("expression", EXCEPTIONS)
def test_exceptions_arrive_with_what_they_say(sandbox, expression):
    cls, condition = EXCEPTIONS[expression]
    imports = "import json, sqlite3, zipfile"
    code = f"{imports}\ndef task_func(): return {expression}"
    test = f"{imports}\nwith self.assertRaises({cls}) as caught: task_func()\nerror = caught.exception"
    assert judge(sandbox, code, f"{test}\nself.assertTrue({condition}, repr(error))") == ["passed"]


def test_arrays_generators_paths_and_fractions_cross(sandbox):
    code = """
from array import array
from fractions import Fraction
from pathlib import Path
def task_func(what):
    if isinstance(what, array):
        what.append(4)
        return what
    if what == "path":
        return Path("a") / "b"
    return (i for i in range(3)) if what == "generator" else Fraction(1, 2)
"""
    assert (
        judge(
            sandbox,
            code,
            "from array import array; self.assertEqual(task_func(array('i', [1])), array('i', [1, 4]))",
            "from array import array; a = array('i', [1]); task_func(a); self.assertEqual(a, array('i', [1, 4]))",
            "self.assertEqual(list(task_func('generator')), [0, 1, 2])",
            "from pathlib import Path; self.assertEqual(task_func('path'), Path('a/b'))",
            "from fractions import Fraction; self.assertEqual(task_func(''), Fraction(1, 2))",
        )
        == ["passed"] * 5
    )


@pytest.mark.parametrize("attributes", [None, 1, {1: 2}, {"__class__": 1, "_x": 1, "with_traceback": 1}])
def test_hostile_facts_of_an_exception_make_no_other(attributes):
    error = put_together(
        {"classes": [["builtins", "ValueError"]], "args": ["no"], "text": "no", "attributes": attributes}
    )
    assert error.__class__ is type(error) is ValueError


def test_what_a_program_says_cannot_steer_the_terminal_that_shows_its_report(sandbox):
    report = sandbox.run(
        Program(
            "def task_func():\n    print('\\x1b[2Jout')\n    raise ValueError('\\x1b]0;title\\x07\\x9b1m')",
            _tests(["task_func()"]),
        )
    )
    texts = report.reason + "".join(test.message + test.output for test in report.tests)
    assert {word for word in ("out", "title", "\x1b", "\x9b") if word in texts} == {"out", "title"}


def test_what_was_changed_or_handed_out_before_is_changed_for_the_tests_as_well(sandbox):
    """A copy would have a program that shares its state with whoever asked pass for one that does not."""
    code = """
kept = []
def task_func(item, into=None):
    if into is not None: kept.append(into)
    for one in kept: one.append(item)
    return kept[0]
"""
    bodies = (
        "mine = [1]; self.assertEqual(task_func(2, mine), [1, 2]); self.assertEqual(mine, [1, 2])",
        "mine = []; task_func(1, mine); task_func(2); self.assertEqual(mine, [1, 2])",
        "first = task_func(1, []); task_func(2); self.assertEqual(first[-1], 2)",
    )
    assert judge(sandbox, code, *bodies) == ["passed"] * 3


def test_what_is_no_plain_data_does_not_cross(sandbox):
    code = """
import unittest.mock
class Equal:
    def __eq__(self, other): return True
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def task_func(kind): return eval(kind)
"""
    lies = ("Equal()", "[Equal()]", "Text('a')", "unittest.mock.ANY", "Equal", "lambda: 5", "unittest")
    said = judge(sandbox, code, *(f"self.assertEqual(task_func({lie!r}), 5)" for lie in lies))
    assert "passed" not in said


def test_the_prompts_helpers_are_the_tests_own(sandbox):
    given = "import math\ndef near(a, b): return math.isclose(a, b)\ndef task_func(x):\n    'Doubles.'"
    code = "def near(a, b): return True\ndef task_func(x): return 3 * x"
    tests = _tests(["self.assertTrue(near(task_func(1), 2))", "self.assertTrue(near(task_func(1), 3))"])
    report = sandbox.run(Program(code, tests, given=given))
    assert [report.isolation, *(test.outcome for test in report.tests)] == ["sealed", "failed", "passed"]
