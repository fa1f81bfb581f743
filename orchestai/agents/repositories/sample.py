"""A small git repository with three bugs, and an instance in SWE-bench's format of each. Its commit never changes."""

from __future__ import annotations

import difflib
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestai.storage.artifacts import write_bytes

NAME = "textkit"
_FILES = {
    "README.md": "# textkit\n\nSmall functions on text and numbers, without dependencies.\n",
    "textkit/__init__.py": '"""Small functions on text and numbers."""\n',
    "textkit/words.py": '''\
"""Functions on words."""


def slug(title):
    """Lower-case words of a title, joined by hyphens: "Hello, World" gives "hello-world"."""
    kept = "".join(letter if letter.isalnum() else " " for letter in title.lower())
    return "-".join(kept.split())


def wrap(text, width):
    """Lines of at most `width` characters; a word longer than that has a line of its own."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and len(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    if line:
        lines.append(line)
    return lines
''',
    "textkit/numbers.py": '''\
"""Functions on numbers."""

_ROMAN = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
          (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def roman(number):
    """A number from 1 to 3999 in Roman numerals."""
    out = []
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        out.append(letters * count)
    return "".join(out)


def seconds(duration):
    """Seconds of a duration such as "1h 30m" or "45s"."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(part[:-1]) * units[part[-1]] for part in duration.split())
''',
    "tests/__init__.py": "",
    "tests/test_words.py": """\
import unittest

from textkit.words import slug, wrap


class WordsTest(unittest.TestCase):
    def test_slug(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_wrap(self):
        self.assertEqual(wrap("a bb ccc", 4), ["a bb", "ccc"])

    def test_wrap_nothing(self):
        self.assertEqual(wrap("", 4), [])


if __name__ == "__main__":
    unittest.main()
""",
    "tests/test_numbers.py": """\
import unittest

from textkit.numbers import roman, seconds


class NumbersTest(unittest.TestCase):
    def test_roman(self):
        self.assertEqual(roman(1666), "MDCLXVI")

    def test_seconds(self):
        self.assertEqual(seconds("2m"), 120)


if __name__ == "__main__":
    unittest.main()
""",
}


@dataclass(frozen=True)
class _Bug:
    """`wrong` stands at the base commit where `right` should; `test` is a method that only `right` passes."""

    name: str
    path: str
    right: str
    wrong: str
    issue: str
    test_path: str
    test: str


_BUGS = (
    _Bug(
        "slug",
        "textkit/words.py",
        'letter if letter.isalnum() else " " for',
        "letter for",
        "slug() keeps punctuation\n\nslug('Hello, World!') returns 'hello,-world!' instead of 'hello-world'. "
        "Everything that is neither a letter nor a digit should separate words.",
        "tests/test_words.py",
        '    def test_slug_punctuation(self):\n        self.assertEqual(slug("Hello, World! 2x"), "hello-world-2x")\n',
    ),
    _Bug(
        "roman",
        "textkit/numbers.py",
        '(500, "D"), (400, "CD")',
        '(500, "D")',
        "roman(400) gives CCCC\n\nroman() does not know the numeral CD: roman(400) returns 'CCCC', not 'CD'.",
        "tests/test_numbers.py",
        '    def test_roman_four_hundred(self):\n        self.assertEqual(roman(444), "CDXLIV")\n',
    ),
    _Bug(
        "wrap",
        "textkit/words.py",
        "    if line:\n        lines.append(line)\n    return lines",
        "    if line and lines:\n        lines.append(line)\n    return lines",
        "wrap() loses short texts\n\nwrap('hello', 10) returns [] but should return ['hello']. Texts that need more "
        "than one line come out right.",
        "tests/test_words.py",
        '    def test_wrap_one_line(self):\n        self.assertEqual(wrap("hello", 10), ["hello"])\n',
    ),
)


def make_repository(folder: Path) -> list[dict[str, Any]]:
    """Write `textkit.bundle`, the repository in git's one-file format, to `folder`; the instances that it is for."""
    files = dict(_FILES)
    for bug in _BUGS:
        files[bug.path] = files[bug.path].replace(bug.right, bug.wrong)
    with tempfile.TemporaryDirectory() as scratch:
        commit = _commit(Path(scratch), files)
        _git(Path(scratch), "bundle", "create", "--quiet", "all.bundle", "--all")
        write_bytes(folder / f"{NAME}.bundle", Path(scratch, "all.bundle").read_bytes())
    return [_instance(bug, files, commit) for bug in _BUGS]


def _instance(bug: _Bug, files: Mapping[str, str], commit: str) -> dict[str, Any]:
    tests = files[bug.test_path]
    end = "\n\nif __name__"
    return {
        "instance_id": f"{NAME}-{bug.name}",
        "repo": NAME,
        "base_commit": commit,
        "problem_statement": bug.issue,
        "patch": _diff(bug.path, files[bug.path], files[bug.path].replace(bug.wrong, bug.right)),
        "test_patch": _diff(bug.test_path, tests, tests.replace(end, f"\n{bug.test}{end}")),
        "FAIL_TO_PASS": [f"{bug.test_path}::{_class(tests)}::{_methods(bug.test)[0]}"],
        "PASS_TO_PASS": [
            f"{path}::{_class(source)}::{name}"
            for path, source in files.items()
            if Path(path).name.startswith("test_")
            for name in _methods(source)
        ],
    }


def _class(source: str) -> str:
    return source.partition("class ")[2].partition("(")[0]


def _methods(source: str) -> list[str]:
    return [line.split("def ")[1].partition("(")[0] for line in source.splitlines() if line.startswith("    def ")]


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    return "".join(lines)


def _commit(folder: Path, files: Mapping[str, str]) -> str:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "--message=textkit 0.1")
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str:
    who = {"NAME": "OrchestAI", "EMAIL": "textkit@example.org", "DATE": "2026-01-01T00:00:00+00:00"}
    environment = {f"GIT_{kind}_{key}": value for kind in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    return subprocess.run(
        ["git", "-c", "core.autocrlf=false", "-c", "commit.gpgSign=false", *arguments],
        cwd=folder,
        env={"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin:/usr/local/bin"}
        | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
