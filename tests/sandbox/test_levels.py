"""What the sandbox is on the host: never root's processes by the name of isolated ones."""

import os
import shutil
import subprocess
import sys

import pytest

from orchestai.errors import InfrastructureError
from orchestai.outcome import Unscorable
from orchestai.sandbox import Program, Sandbox, levels
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.visible_examples import Example
from support.sandbox.programs import ADD, ADD_TESTS

_WHO = """
import json, warnings
from orchestai.errors import UserError
from orchestai.sandbox import Program, Sandbox
code = "def task_func(): return [line.split() for line in open('/proc/self/uid_map')]"
tests = "import unittest\\nclass T(unittest.TestCase):\\n    def test(self): self.assertEqual(task_func(), 0)"
try:
    with Sandbox(workers=1, strictness="strict") as sandbox:
        print(sandbox.run(Program(code, tests)).tests[0].message)
except UserError as error:
    print("refused:", error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="root alone can lack some of root's powers")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to give powers up")
@pytest.mark.parametrize("power", ["sys_admin", "setuid", "setgid"])
def test_root_without_its_powers_runs_no_program_as_root(power):
    """In a user namespace of root's, programs are nobody by name, and root for the files of the host."""
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-{power}", f"--inh-caps=-{power}", "--", sys.executable, "-c", _WHO],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:") or "'0'" not in done.stdout, done.stdout


def test_where_programs_cannot_be_isolated_they_alone_are_refused_until_somebody_trusts_them(monkeypatch):
    monkeypatch.setattr(levels, "find_namespaces", lambda: "this system has none")
    with Sandbox(workers=1) as sandbox:
        report = sandbox.run(Program(ADD, ADD_TESTS))
        assert (report.status, sandbox.level) == ("refused", "none")
        assert "this system has none" in report.reason
        assert "sandbox.level=process" in report.reason
        assert isinstance(report.outcome(), Unscorable)
    with pytest.warns(UserWarning, match="limits alone"), Sandbox(workers=1, strictness="process") as trusting:
        assert trusting.run(Program(ADD, ADD_TESTS)).success


# The check against visible examples: equal values of equal types, and no verdict where none is possible.


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as sandbox:
        yield sandbox


EXAMPLES = (Example(("'a b'",), "['a', 'b']"), Example(("''",), "[]"))


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("def step(x):\n    return x.split()", True),
        ("step = str.split", True),
        ("from operator import itemgetter as step", False),
        ("def step(x):\n    return tuple(x.split())", False),
        ("def step(x):\n    return ['a', 'b']", False),
        ("def other(x):\n    return x.split()", False),
        ("def step(x:", False),
    ],
)
async def test_visible_examples(sandbox, code, passes):
    assert await passes_examples(sandbox, code, "step", EXAMPLES) is passes


@pytest.mark.parametrize(("result", "passes"), [("1", False), ("True", True), ("[True]", False)])
async def test_examples_compare_types_too(sandbox, result, passes):
    """`1 == True` in Python, but not in an example."""
    example = Example(("1",), result)
    assert await passes_examples(sandbox, "def step(x):\n    return x == 1", "step", [example]) is passes


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("def step(*x):\n    return [True for _ in x]", True),
        ("def step(x):\n    return [True]", False),
        ("def other(x):\n    'x'\n    return [True]\nstep = other", False),
    ],
)
async def test_a_function_that_reads_no_argument_is_right_by_chance(sandbox, code, passes):
    assert await passes_examples(sandbox, code, "step", [Example(("1",), "[True]")]) is passes


async def test_examples_that_cannot_be_judged_are_no_verdict():
    broken = Sandbox(workers=1)
    broken.close()
    with pytest.raises((InfrastructureError, RuntimeError)):
        await passes_examples(broken, "def f(x): return x", "f", [Example(("1",), "1")])
