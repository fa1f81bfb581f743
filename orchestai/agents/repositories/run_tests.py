"""Running tests of a repository in the sandbox: its files are written to the scratch disk, and its own tests run there.

A file of `unittest` tests becomes the tests of a sandbox program, so that each has its own time and verdict, and a
patch that makes its tests pass whatever they expect is found out by their twins. Other tests are run by pytest, one by
one. Either way patch and tests share a process, as in SWE-bench: forgery is detected, not prevented.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestai.agents.repositories.repository import Files
from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox import Program, Report, Sandbox
from orchestai.sandbox.static.test_discovery import list_tests
from orchestai.text.syntax import parse_python

_MOST_FILES = 3500
"""The scratch disk has 4,096 inodes."""
_DJANGO_ID = re.compile(r"(?P<method>\w+) \((?P<module>[\w.]+)\)")

_UNPACK = """\
import base64, json, os, sys, zlib

def repository():
    for path, content in json.loads(zlib.decompress(base64.b85decode({packed!r}))).items():
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode("latin-1"))

repository()
sys.path[:0] = [path for path in (os.getcwd(), os.path.abspath("src")) if os.path.isdir(path)]
"""
_PYTEST = """\
import contextlib, io, unittest
import pytest

class Outcome:
    said = "not found"

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.said = report.outcome if report.outcome != "failed" else report.longreprtext[-250:]

def outcome(test):
    plugin, printed = Outcome(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        pytest.main(["-p", "no:cacheprovider", "-q", "--rootdir=.", test], plugins=[plugin])
    return plugin.said if plugin.said != "not found" else "not found: " + printed.getvalue()[-200:]

class Tests(unittest.TestCase):
"""
_PYTEST_TEST = """\
    def test_{number}(self):
        self.assertEqual(outcome({test!r}), "passed")
"""


@dataclass(frozen=True)
class TestResult:
    """What came of one test of the repository; `message` says why it did not pass."""

    __test__ = False

    passed: bool
    message: str = ""


async def run_tests(sandbox: Sandbox, files: Files, tests: Iterable[str]) -> dict[str, TestResult]:
    """Run tests, named as pytest or Django name them, on the files of a repository.

    Raises:
        InfrastructureError: the sandbox failed, or the repository does not fit its scratch disk.
        UserError: tests are pytest's, which is not installed.
    """
    code = _unpack(files, sandbox)
    results: dict[str, TestResult] = {}
    by_file: dict[str, dict[str, str]] = defaultdict(dict)
    for test in tests:
        path, name = place(test, files)
        results[test] = TestResult(False, f"there is no test file {path}")
        if path in files:
            by_file[path][test] = name
    for path, names in by_file.items():
        source = files[path].decode(errors="replace")
        own = _own_names(source)
        direct = {test: name for test, name in names.items() if name in own}
        others = [test for test in names if test not in direct]
        numbered = {test: f"Tests.test_{number}" for number, test in enumerate(others)}
        nodes = [_node(path, names[test]) for test in others]
        if nodes and not sandbox.can_import("pytest"):
            raise UserError(f"{path}: its tests are run by pytest, which is not installed; run: pip install pytest")
        # What a file of direct tests expects is not there to be read. Pytest is imported before there are files, one of
        # which might have its name.
        unread = _unpack({name: files[name] for name in files if name != path}, sandbox) if direct else ""
        for head, run, wanted in (
            (unread, source, direct),
            (f"import pytest\n{code}", _pytest_source(nodes), numbered),
        ):
            if wanted:
                report = await sandbox.arun(Program(head, run, "repository", "in_process"))
                results |= _results(report, wanted)
    return results


def _results(report: Report, wanted: Mapping[str, str]) -> dict[str, TestResult]:
    """The results of tests; `wanted` holds their names in the report."""
    if report.status == "infra_error":
        raise InfrastructureError("sandbox", report.reason)
    verdicts = {verdict.name: verdict for verdict in report.tests}
    results = {}
    for test, name in wanted.items():
        verdict = verdicts.get(name)
        passed = verdict is not None and verdict.outcome == "passed"
        message = "" if passed else (verdict and (verdict.message or verdict.outcome)) or report.reason
        results[test] = TestResult(passed, message)
    return results


def place(test: str, files: Files) -> tuple[str, str]:
    """The file that a test is in, which need not be there, and its name in it (`Class.method` or `function`)."""
    if match := _DJANGO_ID.fullmatch(test):
        module, _, cls = match["module"].rpartition(".")
        path = module.replace(".", "/") + ".py"
        under_tests = f"tests/{path}"
        return (under_tests if path not in files and under_tests in files else path), f"{cls}.{match['method']}"
    path, _, name = test.partition("::")
    return path, name.replace("::", ".", name.partition("[")[0].count("::"))


def _node(path: str, name: str) -> str:
    """What pytest calls a test."""
    return f"{path}::{name.replace('.', '::', name.partition('[')[0].count('.'))}"


def _own_names(source: str) -> set[str]:
    """The `unittest` tests that a file defines; none where it cannot run outside its package."""
    try:
        tree = parse_python(source)
        relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
        return set() if relative else set(list_tests(source))
    except (SyntaxError, ValueError, RecursionError):
        return set()


def _pytest_source(tests: Iterable[str]) -> str:
    return _PYTEST + "".join(_PYTEST_TEST.format(number=i, test=test) for i, test in enumerate(tests))


def _unpack(files: Files, sandbox: Sandbox) -> str:
    return _UNPACK.format(packed=_packed(files, sandbox.limits.file_mb))


def _packed(files: Files, file_mb: int) -> bytes:
    size = sum(map(len, files.values()))
    if len(files) > _MOST_FILES or size > file_mb * 900_000:
        raise InfrastructureError(
            "sandbox",
            f"a repository of {len(files)} files and {size / 1e6:.0f} MB does not fit the sandbox's scratch disk "
            f"({_MOST_FILES} files, {file_mb * 0.9:.0f} MB)",
        )
    return base64.b85encode(zlib.compress(json.dumps({path: files[path].decode("latin-1") for path in files}).encode()))
