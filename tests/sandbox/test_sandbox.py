"""The sandbox: honest programs get what they earn, in both isolations, and nothing that a program does gets it more."""

import sys

import pytest

from orchestai.config import SandboxConfig
from orchestai.errors import UserError
from orchestai.outcome import Scored, Unscorable
from orchestai.sandbox import Limits, Program, Report, Sandbox
from orchestai.sandbox.static.test_discovery import list_tests
from support.sandbox.programs import ADD, ADD_TESTS, case

both = pytest.mark.parametrize("isolation", ["sealed", "open"])


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2, limits=Limits(wall_s=20, load_s=3, test_s=2, memory_mb=256)) as sandbox:
        yield sandbox


def outcomes(report: Report) -> list[str]:
    return [test.outcome for test in report.tests]


@both
@pytest.mark.parametrize(
    ("code", "status", "passed"),
    [
        (ADD, "ok", 4),
        ("def task_func(a, b):\n    return a + b if a < 50 else None\n", "ok", 3),
        ("def task_func(a, b)\n    return a + b\n", "syntax_error", 0),
        ("I cannot do that.", "syntax_error", 0),
        ("import no_such_module\n" + ADD, "import_error", 0),
        ("import sys\nsys.exit(0)\n" + ADD, "import_error", 0),
        ("task_func = 3", "no_entry_point", 0),
        ("import os\nos._exit(0)\n" + ADD, "died", 0),
        ("def task_func(a, b):\n    import os\n    os._exit(0)\n", "died", 0),
        ("def task_func(a, b):\n    raise SystemExit(0)\n", "ok", 0),
        ("def task_func(a, b):\n    if a == 5: import os; os.abort()\n    return a + b\n", "died", 3),
        ("import atexit, time\natexit.register(time.sleep, 3600)\n" + ADD, "ok", 4),
        ("def task_func(a, b):\n    return a + b + int(input())\n", "ok", 0),
    ],
)
def test_a_program_gets_the_tests_that_it_passes_and_a_reason_for_the_rest(sandbox, isolation, code, status, passed):
    report = sandbox.run(Program(code, ADD_TESTS, isolation=isolation))
    assert (report.status, report.passed, report.total) == (status, passed, 4)
    assert report.outcome() == Scored(passed / 4)
    assert bool(report.reason) == (status != "ok")


@both
def test_a_test_that_hangs_costs_only_itself(sandbox, isolation):
    code = "def task_func(a, b):\n    while a == 5: pass\n    return a + b\n"
    report = sandbox.run(Program(code, ADD_TESTS, isolation=isolation))
    assert outcomes(report) == ["passed", "timeout", "passed", "passed"]
    assert report.status == "timeout"
    assert report.cpu_s < 5


def test_the_wall_limit_ends_everything():
    """Many hanging tests, each within its own limit, must not add up."""
    with Sandbox(workers=1, limits=Limits(wall_s=2, test_s=1)) as short:
        report = short.run(Program("def task_func(a, b):\n    while True: pass\n", ADD_TESTS))
    assert report.status == "timeout"
    assert report.passed == 0
    assert report.cpu_s < 5


@pytest.mark.skipif(sys.platform != "linux", reason="Darwin does not limit the address space")
@both
def test_memory_is_limited(sandbox, isolation):
    report = sandbox.run(
        Program("def task_func(a, b):\n    return bytearray(1 << 30)\n", ADD_TESTS, isolation=isolation)
    )
    assert (report.status, report.passed) == ("memory", 0)
    outcomes = [test.outcome for test in report.tests]
    assert outcomes == ["memory", "memory", *["not_run"] * (len(outcomes) - 2)], "filling the memory twice is enough"


@both
def test_unittest_is_understood(sandbox, isolation):
    """Fixtures, subtests, expected failures, skips and async tests count as unittest itself counts them."""
    tests = """
import unittest
class Base(unittest.TestCase):
    def test_inherited(self): self.assertEqual(task_func(1, 1), 2)
class TestFixtures(Base):
    @classmethod
    def setUpClass(cls): cls.value = task_func(1, 1)
    def setUp(self): self.other = task_func(self.value, 1)
    def test_own(self): self.assertEqual(self.other, 3)
class TestBrokenFixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise KeyError("no")
    def test_never_runs(self): pass
class TestKinds(unittest.TestCase):
    def test_subtest(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(task_func(i, 0), 1)
    @unittest.expectedFailure
    def test_expected(self): self.assertEqual(task_func(1, 1), 3)
    @unittest.expectedFailure
    def test_unexpected(self): self.assertEqual(task_func(1, 1), 2)
    @unittest.skip("not now")
    def test_skipped(self): pass
    def test_skips_itself(self): self.skipTest("no")
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_async(self): self.assertEqual(task_func(1, 2), 3)
"""
    report = sandbox.run(Program(ADD, tests, isolation=isolation))
    assert {test.name.partition(".")[2]: test.outcome for test in report.tests} == {
        "test_inherited": "passed",
        "test_own": "passed",
        "test_never_runs": "error",
        "test_subtest": "failed",
        "test_expected": "passed",
        "test_unexpected": "failed",
        "test_skipped": "skipped",
        "test_skips_itself": "skipped",
        "test_async": "passed",
    }
    assert (report.passed, report.total) == (5, 10)


@pytest.mark.parametrize(
    "tests",
    ["", "x = 1", "def test_a(): pass", "import unittest\nclass T(unittest.TestCase):\n    pass", "class ("],
)
def test_no_tests_is_no_verdict(sandbox, tests):
    """An empty suite has no failures; a judge that pays for that can be gamed, and a zero would poison."""
    report = sandbox.run(Program(ADD, tests))
    assert report.status == "broken"
    assert isinstance(report.outcome(), Unscorable)


def test_discovery_reads_tests_from_the_source():
    source = """
import unittest
class Mixin:
    def test_m(self): pass
    def helper(self): pass
class A(Mixin, unittest.TestCase):
    def test_a(self): pass
    async def test_b(self): pass
class B(A):
    def test_a(self): pass
class NotATest:
    def test_x(self): pass
"""
    assert list_tests(source) == ("A.test_m", "A.test_a", "A.test_b", "B.test_m", "B.test_a", "B.test_b")


HONEST = {
    "values": (
        "def task_func(x): return x",
        """
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
for x in (
    *(None, True, 3, 2.5, 1j, float("inf"), "ä", b"x", bytearray(b"y"), range(3), Decimal("1.5"), Fraction(1, 3)),
    *([1, [2]], (1,), {"a": [1]}, {1}, frozenset([1]), date(2024, 2, 29), timedelta(1)),
    *(Counter("aab"), OrderedDict(a=1), defaultdict(list, a=[1]), deque([1], maxlen=2)),
    datetime(2024, 1, 1, tzinfo=timezone.utc),
):
    y = task_func(x)
    self.assertEqual(x, y)
    self.assertIs(type(x), type(y))
""",
    ),
    "mutation": (
        "def task_func(x, *, d):\n    x.append(1); d['k'] = {2}\n    return x",
        """
x, d = [0], {}
self.assertIs(task_func(x, d=d), x)
self.assertEqual((x, d), ([0, 1], {"k": {2}}))
""",
    ),
    "constants that are no number": (
        "import math\nimport numpy as np\ndef task_func():\n    return [np.nan, (math.nan, {'a': np.nan}), {1}]",
        """
import math
import numpy as np
self.assertEqual(task_func(), [np.nan, (math.nan, {"a": np.nan}), {1}])
self.assertNotEqual(task_func(), [np.nan, (math.nan, {"a": float("nan")}), {1}])
""",
    ),
    "sorting in place": (
        "def task_func(x):\n    x.sort(key=lambda row: row[1])\n    x[0][2].append(9)\n    return x",
        """
x = [("b", 2, []), ("a", 1, [8])]
self.assertIs(task_func(x), x)
self.assertEqual(x, [("a", 1, [8, 9]), ("b", 2, [])])
""",
    ),
    "exceptions": (
        """
import json
class Mine(LookupError): pass
def task_func(x):
    if x == 1: raise Mine("gone")
    if x == 2: raise KeyError("k")
    if x == 3: raise ValueError(object())
    json.loads("{")
""",
        """
import json
with self.assertRaisesRegex(LookupError, "gone"): task_func(1)
with self.assertRaises(KeyError): task_func(2)
with self.assertRaises(ValueError): task_func(3)
with self.assertRaises(json.JSONDecodeError): task_func(4)
""",
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_sealing_is_not_noticed_by_honest_programs(sandbox, name):
    code, body = HONEST[name]
    report = sandbox.run(Program(code, case(body)))
    assert report.success, report


def test_open_judging_serves_tests_that_exchange_objects(sandbox):
    """BigCodeBench's tests mock modules, use names that only the solution imports, and get objects back."""
    code = "import random, os.path\nclass P: pass\ndef task_func():\n    return P(), os.path.exists('x'), random"
    tests = case("""
from unittest.mock import patch
with patch("os.path.exists", return_value="mocked"): p, exists, r = task_func()
self.assertIsInstance(p, P)
self.assertEqual(exists, "mocked")
self.assertIs(r, random)
""")
    assert sandbox.run(Program(code, tests, isolation="open")).success


def test_a_module_that_cannot_be_preloaded_is_named():
    with pytest.raises(UserError, match=r"no_such_module.*sandbox\.preload"), Sandbox(preload=["no_such_module"]):
        pass


def test_a_test_says_what_it_took_and_printed(sandbox: Sandbox) -> None:
    code = """\
import sys
def task_func(n):
    print("out", n)
    print("err", n, file=sys.stderr)
    kept = bytearray(n << 20)
    return sum(i & 1 for i in range(n * 20_000))
"""
    body = "    def test_{0}(self):\n        print('test')\n        self.assertGreater(task_func({0}), 0)\n"
    tests = "import unittest\nclass T(unittest.TestCase):\n" + body.format(1) + body.format(60)
    for isolation in ("sealed", "open"):
        report = sandbox.run(Program(code, tests, isolation=isolation))
        small, large = report.tests
        assert (small.output, large.output) == ("test\nout 1\nerr 1\n", "test\nout 60\nerr 60\n")
        assert large.wall_s > small.wall_s > 0
        assert report.cpu_s > 0
        assert 40 < report.peak_mb < 100


@pytest.mark.parametrize(("processes", "passed"), [(16, 0), (64, 1)])
def test_a_configuration_says_how_many_threads_a_program_may_have(processes: int, passed: int) -> None:
    """One of BigCodeBench's starts 256, and no key allowed it."""
    code = """\
import threading
def task_func(n):
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(n)]
    for thread in threads:
        thread.start()
    done.set()
    return n
"""
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(task_func(40), 40)"
    with Sandbox.from_config(SandboxConfig(workers=1, processes=processes)) as sandbox:
        assert sandbox.run(Program(code, tests)).passed == passed
