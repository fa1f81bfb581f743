"""One process runs the tests of many programs: which tests may, and that no program gains or loses by it."""

import sys
import time

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.inside.jail import processes
from orchestai.sandbox.levels import find_namespaces
from orchestai.sandbox.static.modes import is_self_contained
from support.sandbox.programs import ADD, ADD_TESTS, case

namespaces = pytest.mark.skipif(
    sys.platform != "linux" or not isinstance(find_namespaces(), Bubblewrap), reason=f"{find_namespaces()}"
)
UNREADABLE = """
import sys
def task_func():
    frame = sys._getframe()
    while "encode" not in frame.f_globals: frame = frame.f_back
    frame.f_globals["encode"] = lambda answer: b"no pickle"
"""
SLOTS = 2
"""Of a server for one worker; programs take turns on them."""


@pytest.fixture(scope="module")
def sandbox():
    limits = Limits(wall_s=20, load_s=3, test_s=1.5, memory_mb=256)
    with Sandbox(workers=1, limits=limits, cache_size=0, strictness="strict") as sandbox:
        yield sandbox


def waiting_processes(sandbox: Sandbox) -> set[int]:
    """The processes that outlast a program on every slot: those that run tests."""
    run_on_all_slots(sandbox, Program(ADD, ADD_TESTS))
    before = leaves(sandbox)
    run_on_all_slots(sandbox, Program(ADD, ADD_TESTS))
    return before & leaves(sandbox)


def run_on_all_slots(sandbox: Sandbox, program: Program) -> None:
    for _ in range(SLOTS):
        sandbox.run(program)


def leaves(sandbox: Sandbox) -> set[int]:
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:  # until every slot has two processes ready
        found = {pid for pid in processes.descendants(sandbox.server_pid) if not processes.descendants(pid)}
        if len(found) == 2 * SLOTS:
            return found
    raise AssertionError(f"not two processes for each slot: {found}")


@pytest.mark.parametrize(
    "body",
    [
        "assert task_func(1) == [2, {'a': (3,)}]",
        "self.assertEqual(task_func('x'), 'y', msg='wrong')",
        "with self.assertRaises(ValueError): task_func()",
        "for i in range(3):\n    with self.subTest(i=i): self.assertTrue(isinstance(task_func(i), int))",
        "import math, copy\nself.assertAlmostEqual(task_func(copy.deepcopy([1])), math.sqrt(2))",
        "from collections import Counter\nself.assertEqual(task_func(), Counter('ab'))",
        "with self.assertRaises(KeyError) as caught: task_func()\nself.assertEqual(caught.exception.args, ('x',))",
    ],
)
def test_tests_of_values_are_self_contained(body):
    assert is_self_contained(case(body), "task_func")


@pytest.mark.parametrize(
    "body",
    [
        "unittest.TestCase.assertEqual = None",
        "self.__class__.shared = 1",
        "setattr(unittest, 'x', 1)",
        "open('file')",
        "import random\nrandom.random()",
        "import math\nmath.pi = 3",
        "import numpy as np\nnp.seterr(all='raise')",
        "helper(task_func())",
        "async def later(): pass",
        "type(self).mro()",
        "with self.assertLogs(): task_func()",
    ],
)
def test_tests_that_can_leave_or_find_something_are_not(body):
    assert not is_self_contained(case(body), "task_func")


@namespaces
def test_one_process_runs_the_self_contained_tests_of_many_programs(sandbox):
    kept = waiting_processes(sandbox)
    assert len(kept) == SLOTS
    for code in (ADD, "def task_func(a, b): return 0", "def task_func(a, b): raise ValueError(a)", "1 +"):
        run_on_all_slots(sandbox, Program(code, ADD_TESTS))
    run_on_all_slots(sandbox, Program(ADD, ADD_TESTS, isolation="open"))
    assert waiting_processes(sandbox) == kept


@namespaces
@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("import os\ndef task_func(): os._exit(0)", case("task_func()")),
        ("def task_func():\n    while True: pass", case("task_func()")),
        ("from decimal import Decimal\ndef task_func(): return Decimal(1)", case("task_func()")),
        ("def task_func(): return 'x' * (32 << 20)", case("self.assertEqual(len(task_func()), 32 << 20)")),
        ("def task_func(): open('file', 'w').close()", case("task_func()")),
        ("async def task_func(): pass", case("task_func()")),
        (UNREADABLE, case("task_func()")),
        ("import tarfile\ndef task_func(): raise tarfile.TarError", case("task_func()")),
        ("def task_func(): pass", case("import os\ntask_func()")),
        ("def task_func(): pass", case("task_func()\nfor i in range(150_000_000): pass")),
    ],
    ids=[
        "gone",
        "hangs",
        "a class",
        "memory",
        "disk",
        "a coroutine",
        "no pickle",
        "an import",
        "tests that could leave something",
        "used up",
    ],
)
def test_whatever_is_unusual_ends_the_process(sandbox, code, tests):
    before = waiting_processes(sandbox)
    run_on_all_slots(sandbox, Program(code, tests))
    assert not before & waiting_processes(sandbox)
    assert sandbox.run(Program(ADD, ADD_TESTS)).success


@namespaces
def test_tests_that_leave_something_meet_no_others(sandbox):
    leave = case(
        "import builtins, random, sys\nbuiltins.left = 1\nrandom.seed(task_func(1, 2))\nsys.modules['left'] = 1"
    )
    find = "import builtins, random, sys\nself.assertFalse(hasattr(builtins, 'left') or 'left' in sys.modules)\n"
    find = case(
        find + "random_state = random.random()\nself.assertEqual((task_func(1, 2), random_state), (3, expected))"
    )
    fresh = "0.8444218515250481"  # of seed 0, as every process for tests begins
    for tests in (ADD_TESTS, leave, find.replace("expected", fresh), ADD_TESTS, leave, ADD_TESTS) * SLOTS:
        report = sandbox.run(Program(ADD, tests))
        assert report.success, report


@namespaces
def test_a_program_cannot_change_what_the_tests_of_the_next_do(sandbox):
    """Through answers, errors, printed text, changed arguments and whatever else reaches the tests' process."""
    code = """
import random, sys
def task_func(values):
    random.seed(1)
    print("x" * 100_000)
    values.append(values)
    values[0] = {"__class__": "x", "assertEqual": None}
    sys.setrecursionlimit(10 ** 6)
    deep = []
    for _ in range(50_000): deep = [deep]
    if len(values) % 2: raise AssertionError(deep)
    return deep
"""
    tests = case("task_func([1])") + "    def test_2(self): task_func([1, 2])\n"
    honest = case("values = [1]\nself.assertEqual((task_func(values), values), ([1, 2], [1]))")
    for _ in range(2 * SLOTS):
        sandbox.run(Program(code, tests))
        passed = sandbox.run(Program("def task_func(values): return [*values, 2]", honest))
        assert (passed.success, passed.tests[0].output) == (True, ""), passed
        failed = sandbox.run(Program("def task_func(values): return [*values, 3]", honest))
        assert (failed.passed, failed.status) == (0, "ok")


@namespaces
def test_a_program_is_charged_for_its_own_tests_alone(sandbox):
    """The process has used more for others before."""
    kept = waiting_processes(sandbox)
    heavy = case("task_func(1, 2)\nfor i in range(1_000_000): pass")
    run_on_all_slots(sandbox, Program(ADD, heavy))
    light = [sandbox.run(Program(ADD, ADD_TESTS)) for _ in range(SLOTS)]
    dear = sandbox.run(Program(ADD, heavy))
    assert all(report.cpu_s < dear.cpu_s / 2 for report in light)
    assert waiting_processes(sandbox) == kept
