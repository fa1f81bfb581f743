"""Open tests share a process with the program: what it does to its tests is found out, and honest programs are not."""

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from support.sandbox.programs import case

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
EQUAL = "self.assertEqual(task_func(2), 41)"
FORGERIES = {
    "an assertion is replaced": (
        "import unittest\ndef task_func(x): unittest.TestCase.assertEqual = lambda *a: None",
        EQUAL,
    ),
    "so is unittest": (
        "import sys, types\nsys.modules['unittest'] = types.ModuleType('unittest')\ndef task_func(x): return x",
        EQUAL,
    ),
    "so is a builtin": ("import builtins\ndef task_func(x):\n    builtins.abs = lambda n: 0", EQUAL),
    "the stack is read": (
        "import sys\ndef task_func(x): return sys._getframe(1).f_locals['expected']",
        "expected = 41\nself.assertEqual(task_func(1), expected)",
    ),
    "it equals everything": ("class E:\n    def __eq__(s, o): return True\ndef task_func(x): return E()", EQUAL),
    "what it holds does": (
        "from unittest import mock\ndef task_func(x): return [mock.ANY]",
        "assert task_func(1) == [4]",
    ),
    "it swallows the failure": (
        "class C:\n    def __enter__(s): return s\n    def __exit__(s, *a): return True\ndef task_func(x): return C()",
        "with task_func(1) as one: self.assertEqual(one, 3)",
    ),
    "it ends the test": (
        "import unittest.case\ndef task_func(x): raise unittest.case._ShouldStop",
        EQUAL,
    ),
    "its helper agrees with everything": (
        "def close(a, b): return True\ndef task_func(x): return x",
        "self.assertTrue(close(task_func(2), 41))",
    ),
    "it names a library": (
        "class math:\n    sqrt = lambda x: 3\ndef task_func(x): return 3",
        "assert task_func(4) == math.sqrt(4)",
    ),
}
HONEST = {
    "equality of its own": (
        "class P:\n    def __init__(s, x): s.x = x\n    def __eq__(s, o): return isinstance(o, P) and s.x == o.x\n"
        "def task_func(x): return P(x)",
        "self.assertEqual(task_func(2), P(2))\nself.assertNotEqual(task_func(2), P(3))\nassert task_func(1) != 1",
    ),
    "a helper that judges": (
        "def close(a, b): return abs(a - b) < 1e-6\ndef task_func(x): return x / 3",
        "self.assertTrue(close(task_func(1), 1 / 3))",
    ),
    "a helper for its effect": (
        "def save(value): open('x', 'w').write(str(value))\ndef task_func(x): return x",
        "save(task_func(3))\nself.assertEqual(open('x').read(), '3')",
    ),
    "mocks of the tests": (
        "import time\ndef task_func(x):\n    time.sleep(x)\n    return time.time()",
        "from unittest import mock\nwith mock.patch('time.sleep') as s, mock.patch('time.time', return_value=4):\n"
        "    self.assertEqual(task_func(99), 4)\ns.assert_called_once_with(mock.ANY)",
    ),
    "a global that changes": (
        "count = 0\ndef task_func(x):\n    global count\n    count += x\n    return x",
        "task_func(3)\nself.assertEqual(count, 3)",
    ),
    "frames of its own, by libraries": (
        "import functools, logging, traceback\ndef task_func(x):\n    logging.getLogger('a').warning('b')\n"
        "    try: return 1 / x\n    except ZeroDivisionError: return traceback.format_exc().splitlines()[-1]",
        "self.assertIn('division by zero', task_func(0))",
    ),
    "the prompt's helper stands": ("def task_func(x): return x + 1", "self.assertEqual(double(task_func(1)), 4)"),
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=30, load_s=20, test_s=10, memory_mb=512)) as sandbox:
        yield sandbox


@pytest.mark.parametrize(("code", "body"), FORGERIES.values(), ids=FORGERIES)
def test_what_forges_an_open_verdict_is_paid_nothing(sandbox, code, body):
    report = sandbox.run(Program(code, case(body), isolation="open"))
    assert (report.passed, report.isolation) == (0, "open")


@pytest.mark.parametrize(("code", "body"), HONEST.values(), ids=HONEST)
def test_honest_programs_keep_their_due(sandbox, code, body):
    given = "def double(x): return 2 * x\ndef task_func(x):"
    report = sandbox.run(Program(code, case(body), isolation="open", given=given))
    assert report.success, report


def test_open_verdicts_count_unless_they_are_refused():
    tests = case("from unittest import mock\nself.assertEqual(task_func(mock.sentinel.a), mock.sentinel.a)")
    with Sandbox(workers=1, open_verdicts="refuse") as strict:
        report = strict.run(Program("def task_func(x): return x", tests))
    assert report.status == "refused"
    assert "open_verdicts" in report.reason
    assert "mock" in report.reason
