"""What honest programs find in the sandbox, and what crosses from them to tests in another process."""

import textwrap

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.inside.judge.proxy import _exception

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=20, load_s=10, test_s=5, memory_mb=512)) as sandbox:
        yield sandbox


def judge(sandbox, code, *bodies, isolation="split"):
    """What came of a test with each of these bodies."""
    report = sandbox.run(Program(code, _tests(bodies), isolation=isolation))
    assert report.status == "ok", report.reason
    return [test.message or test.outcome for test in report.tests]


def _tests(bodies):
    methods = (f"    def test_{i}(self):\n{textwrap.indent(body, ' ' * 8)}\n" for i, body in enumerate(bodies))
    return "import unittest\nclass TestCases(unittest.TestCase):\n" + "".join(methods)


def test_programs_find_localhost_their_user_and_python(sandbox):
    if sandbox.level != "namespaces":
        pytest.skip("programs see the host's own settings")
    code = """
import getpass, grp, os, pwd, socket, subprocess
def task_func(what):
    if what == "host": return socket.gethostbyname("localhost")
    if what == "user": return [getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name]
    if what == "python": return subprocess.run(["python", "-c", "print(1)"], capture_output=True).stdout
    if what == "tmp":
        with open("/tmp/file", "w") as file: return file.write("12345")
"""
    assert (
        judge(
            sandbox,
            code,
            "self.assertEqual(task_func('host'), '127.0.0.1')",
            "self.assertEqual(task_func('user'), ['sandbox'] * 3)",
            "self.assertEqual(task_func('python').strip(), b'1')",
            "self.assertEqual(task_func('tmp'), 5)",
        )
        == ["passed"] * 4
    )


EXCEPTIONS = {
    "open('nowhere')": ("FileNotFoundError", "str(error) == \"[Errno 2] No such file or directory: 'nowhere'\""),
    "exit(3)": ("SystemExit", "error.code == 3"),
    "eval('1 +')": ("SyntaxError", "'invalid syntax' in str(error)"),
    "json.loads('[')": ("json.JSONDecodeError", "error.pos == 1 and error.doc == '['"),
    "sqlite3.connect(':memory:').execute('no')": ("sqlite3.OperationalError", "'syntax error' in str(error)"),
    "subprocess.run(['false'], check=True)": ("subprocess.CalledProcessError", "error.returncode == 1"),
    "zipfile.ZipFile(__import__('io').BytesIO(b'no'))": ("zipfile.BadZipFile", "'not a zip' in str(error)"),
}


@pytest.mark.parametrize("expression", EXCEPTIONS)
def test_exceptions_arrive_with_what_they_say(sandbox, expression):
    cls, condition = EXCEPTIONS[expression]
    imports = "import json, sqlite3, subprocess, zipfile"
    code = f"{imports}\ndef task_func(): return {expression}"
    test = f"{imports}\nwith self.assertRaises({cls}) as caught: task_func()\nerror = caught.exception"
    assert judge(sandbox, code, f"{test}\nself.assertTrue({condition}, repr(error))") == ["passed"]


def test_arrays_generators_and_what_the_program_imports_cross(sandbox):
    code = """
from array import array
from fractions import Fraction
from pathlib import Path
from textwrap import shorten
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
            "mine = array('i', [1]); self.assertIs(task_func(mine), mine); self.assertEqual(mine, array('i', [1, 4]))",
            "import types; self.assertIsInstance(task_func('generator'), types.GeneratorType)",
            "self.assertEqual(list(task_func('generator')), [0, 1, 2])",
            "self.assertEqual([Path(task_func('path')), task_func('path').name], [Path('a/b'), 'b'])",
            "self.assertIsInstance(task_func(''), Fraction); self.assertEqual(shorten('a b', 9), 'a b')",
        )
        == ["passed"] * 5
    )


def test_a_program_cannot_pass_the_sandbox_or_mocks_off_as_its_imports(sandbox):
    for module in ("unittest.mock", "sandbox_inside.ipc.values", "__test__"):
        code = f"class ANY: __module__ = {module!r}\ndef task_func(): return 1"
        said = judge(sandbox, code, "self.assertEqual(ANY, 2)")
        assert said != ["passed"]


@pytest.mark.parametrize("attributes", [None, 1, {1: 2}, {"__class__": 1, "_x": 1, "with_traceback": 1}])
def test_hostile_facts_of_an_exception_make_no_other(attributes):
    error = _exception({"classes": [["builtins", "ValueError"]], "args": ["no"], "attributes": attributes})
    assert type(error).__name__ in ("ValueError", "NotPlainError")
    assert error.__class__ is type(error)
