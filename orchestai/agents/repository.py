"""A commit of a git repository as files in memory, and patches applied to them. The repository is never written to.

Two kinds of patch are understood. A *unified diff* is applied by `git apply` in a scratch folder. *Search and replace
blocks* (`edit_blocks`) name a file, the exact lines to find and those to put there.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox import Program, Sandbox
from orchestai.sandbox.static.test_discovery import list_tests
from orchestai.text.syntax import parse_python

_SEARCH = re.compile(r"<{5,9} SEARCH[ \t]*")
_DIVIDER = re.compile(r"={5,9}[ \t]*")
_REPLACE = re.compile(r">{5,9} REPLACE")
_FENCE = "```"
_NO_NAME = re.compile(r"[`*<>]")


class EditBlock(NamedTuple):
    """The lines `old` of the file at `path`, each with its end, are to become `new`."""

    path: str
    old: str
    new: str


def find_blocks(text: str) -> Iterator[EditBlock]:
    """The complete blocks of a text, in order. Every line is looked at a few times, however many blocks are open."""
    lines = text.split("\n")
    free = 0
    for i, line in enumerate(lines):
        if i <= free or not _SEARCH.fullmatch(line):
            continue
        before = lines[max(free, i - 2) : i]  # which end with a name, perhaps above a fence
        above = _name(before[-2]) if len(before) > 1 and before[-1].startswith(_FENCE) else ""
        if not (path := above or _name(before[-1])):
            continue
        divider = next((k for k in range(i + 1, len(lines) - 1) if _DIVIDER.fullmatch(lines[k])), len(lines))
        end = next((k for k in range(divider + 1, len(lines)) if _REPLACE.match(lines[k])), None)
        if end is None:
            return
        old, new = (
            "".join(f"{line}\n" for line in some) for some in (lines[i + 1 : divider], lines[divider + 1 : end])
        )
        yield EditBlock(path, old, new)
        free = end + 1


def _name(line: str) -> str:
    name = line.lstrip("`*# \t").rstrip("`*: \t").strip()
    return "" if _NO_NAME.search(name) else name


Files: TypeAlias = Mapping[str, bytes]
"""Content by path, relative to the repository's root, with forward slashes."""

_DIFF_HEAD = re.compile(r"^(?:diff --git |--- \S)", re.MULTILINE)
_TOUCHED = re.compile(r"^(?:\+\+\+ (?:b/)?|--- (?:a/)?|rename (?:from|to) )([^\t\n]+)", re.MULTILINE)
_NEXT_FILE = re.compile(
    r"^([ +\-\\][^\n]*\n)\n*(?=diff --git |--- [^\n]+\n\+\+\+ [^\n]+\n@@ )",
    re.MULTILINE,
)
"""The end of a hunk, with blank lines that are none of it, before another file's."""
_TIMEOUT_S = 60.0


class PatchError(Exception):
    """A patch does not apply; the message says why, for whoever wrote it."""


@lru_cache(maxsize=64)
def read_commit(repository: Path, commit: str) -> Files:
    """The files of a commit of a repository, or of a bundle of one; links and submodules are left out."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = repository
        if repository.is_file():
            folder = Path(scratch)
            done = _git("clone", "--quiet", "--bare", str(repository.resolve()), ".", cwd=folder)
            if done.returncode:
                raise UserError(f"{repository}: not a git bundle: {_last_line(done.stderr)}")
        done = _git("archive", "--format=tar", commit, cwd=folder)
    if done.returncode:
        raise UserError(f"{repository}: commit {commit!r} cannot be read: {_last_line(done.stderr)}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
    return {name: file.read() for name, file in members.items() if file is not None}


def apply_patch(files: Files, patch: str) -> Files:
    """The files after a patch of either kind.

    Raises:
        PatchError: it is no patch, does not fit the files, or reaches out of the repository.
    """
    if blocks := list(find_blocks(patch)):
        changed = dict(files)
        for block in blocks:
            _replace(changed, block.path.removeprefix("./"), block.old, block.new)
        return changed
    head = _DIFF_HEAD.search(patch)
    if head is None:
        raise PatchError("there is neither a unified diff nor a SEARCH/REPLACE block")
    diff = patch[head.start() :].partition("\n```")[0]
    with tempfile.TemporaryDirectory() as scratch:
        for path, content in files.items():
            target = Path(scratch, path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise PatchError(f"{path[:100]!r} cannot be written: {reason}") from None
        _git("init", "--quiet", cwd=Path(scratch))
        # Else `--recount` takes blank lines, and the head of a plain diff's next file, for lines of the hunk before.
        diff = _NEXT_FILE.sub(r"\1diff -u\n", diff.rstrip("\n") + "\n")
        done = _git("apply", "--recount", "--whitespace=nowarn", "-", cwd=Path(scratch), stdin=diff)
        if done.returncode:
            raise PatchError(_last_line(done.stderr))
        return {
            path.relative_to(scratch).as_posix(): path.read_bytes()
            for path in sorted(Path(scratch).rglob("*"))
            if path.is_file() and not path.is_symlink() and path.relative_to(scratch).parts[0] != ".git"
        }


def touched_paths(diff: str) -> set[str]:
    """The files that a unified diff changes, makes, removes or renames."""
    return {path for path in _TOUCHED.findall(diff) if path != "/dev/null"}


def _replace(files: dict[str, bytes], path: str, old: str, new: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0] == ".git" or "\0" in path:
        raise PatchError(f"{path!r} is not a path inside the repository")
    if path not in files:
        if old.strip():
            raise PatchError(f"there is no file {path!r}")
        files[path] = new.encode(errors="replace")
        return
    text = files[path].decode(errors="replace")
    count = text.count(old) if old.strip() else 0
    if count != 1:
        raise PatchError(f"{path}: the lines to search for occur {count} times, not once")
    files[path] = text.replace(old, new).encode(errors="replace")


def _git(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run git without anybody's configuration or hooks."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=cwd,
            input=stdin.encode(errors="replace"),
            capture_output=True,
            env=environment,
            timeout=_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        missing = cwd if not cwd.is_dir() else "git"
        raise UserError(f"{missing}: not found: {error.strerror}; install git, or correct the path") from None
    except (NotADirectoryError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{cwd}: git {arguments[0]} failed: {error}") from None


def _last_line(message: bytes) -> str:
    lines = [line for line in message.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "git says nothing"


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
        own: set[str] = set()
        try:  # its `unittest` tests, unless it cannot run outside its package
            tree = parse_python(source)
            if not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
                own = set(list_tests(source))
        except (SyntaxError, ValueError, RecursionError):
            pass
        direct = {test: name for test, name in names.items() if name in own}
        others = [test for test in names if test not in direct]
        if others and not sandbox.can_import("pytest"):
            raise UserError(f"{path}: its tests are run by pytest, which is not installed; run: pip install pytest")
        by_pytest = _PYTEST
        for number, test in enumerate(others):
            name = names[test]
            node = f"{path}::{name.replace('.', '::', name.partition('[')[0].count('.'))}"
            by_pytest += _PYTEST_TEST.format(number=number, test=node)
        numbered = {test: f"Tests.test_{number}" for number, test in enumerate(others)}
        # What a file of direct tests expects is not there to be read. Pytest is imported before there are files, one of
        # which might have its name.
        unread = _unpack({name: files[name] for name in files if name != path}, sandbox) if direct else ""
        for head, run, wanted in ((unread, source, direct), (f"import pytest\n{code}", by_pytest, numbered)):
            if not wanted:
                continue
            report = await sandbox.arun(Program(head, run, "repository", "open"))
            if report.status == "infra_error":
                raise InfrastructureError("sandbox", report.reason)
            verdicts = {verdict.name: verdict for verdict in report.tests}
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


def _unpack(files: Files, sandbox: Sandbox) -> str:
    file_mb = sandbox.limits.file_mb
    size = sum(map(len, files.values()))
    if len(files) > _MOST_FILES or size > file_mb * 900_000:
        raise InfrastructureError(
            "sandbox",
            f"a repository of {len(files)} files and {size / 1e6:.0f} MB does not fit the sandbox's scratch disk "
            f"({_MOST_FILES} files, {file_mb * 0.9:.0f} MB)",
        )
    packed = base64.b85encode(
        zlib.compress(json.dumps({path: files[path].decode("latin-1") for path in files}).encode())
    )
    return _UNPACK.format(packed=packed)
