"""Preparing data for agent workflows: public sets, read once from the hub or a file and kept in this package's format.

`python -m orchestai.agents.prepare NAME`; the scripts `examples/*/prepare_*.py` are the same with their name.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestai.errors import UserError
from orchestai.storage.artifacts import write_bytes, write_text
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from orchestai.tasks.written import write_tasks

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


SUITES = {"deepcoder": "deepcoder", "swe": "swe", "math": "aime", "hotpotqa": "hotpotqa"}
"""The suite that each name prepares where no other is asked for."""
_SPLITS = {"train", "validation", "test"}


def prepare(
    suite: str, output: Path, path: str | None = None, split: str = "train", limit: int | None = None
) -> list[Task]:
    """Write the tasks of a suite to `output`/tasks.jsonl, for `tasks.suite=written tasks.path=...`.

    Args:
        path: a file or hub name instead of the suite's own source; all of it is then the split `split`.
        limit: only the first so many tasks of each split.

    Raises:
        UserError: the data cannot be read or written.
    """
    loaded = load_suite(suite, path)
    splits = [name for name in loaded.splits if name in _SPLITS]
    tasks = [task for name in (splits if path is None else [split]) for task in loaded.split(name)[:limit]]
    write_tasks(output / "tasks.jsonl", tasks)
    return tasks


def clone(tasks: Sequence[Task], folder: Path, remote: str) -> None:
    """Clone every repository that SWE tasks are about, `remote` + `owner/name`, unless it is in `folder` already.

    Raises:
        UserError: git cannot clone one.
    """
    for name in sorted({task.details["repo"] for task in tasks}):
        target = folder / name.replace("/", "__")
        if target.exists():
            continue
        command = ["git", "clone", "--quiet", f"{remote}{name}", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"{remote}{name}: cannot be cloned: {done.stderr.strip().splitlines()[-1]}")


def write_swe_sample(folder: Path) -> None:
    """The sample repository as a git bundle, and its instances: two to train on, one to test."""
    instances = make_repository(folder)
    splits = ["train"] * (len(instances) - 1) + ["test"]
    lines = [json.dumps(instance | {"split": split}) + "\n" for instance, split in zip(instances, splits, strict=True)]
    write_text(folder / "instances.jsonl", "".join(lines))


def _main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(SUITES)}.")],
    suite: Annotated[str | None, typer.Option(help="Another suite, such as gsm8k or math500.")] = None,
    path: Annotated[str | None, typer.Option(help="A file or hub name instead of the suite's source.")] = None,
    split: Annotated[str, typer.Option(help="The split that the file of --path is.")] = "train",
    limit: Annotated[int | None, typer.Option(help="Only the first so many tasks of each split.", min=1)] = None,
    output: Annotated[Path | None, typer.Option("--output_dir", "--output-dir", help="Default: data/NAME.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="swe: only the small sample repository, offline.")] = False,
    remote: Annotated[str, typer.Option(help="swe: where repositories are cloned from.")] = "https://github.com/",
) -> None:
    """Write a public task set in this package's format."""
    if name not in SUITES:
        raise UserError(f"nothing to prepare is called {name!r}; there are {', '.join(SUITES)}")
    output = output or Path("data") / name
    if sample:
        write_swe_sample(output)
        typer.echo(f"{output}: a repository with its instances; set agents.workflow_args.repositories={output}")
        return
    tasks = prepare(suite or SUITES[name], output, path, split, limit)
    if name == "swe":
        clone(tasks, output / "repositories", remote)
    counts = {split: sum(task.split == split for task in tasks) for split in sorted({task.split for task in tasks})}
    path = str(output / "tasks.jsonl")
    typer.echo(f"{path}: {counts}; train with tasks.suite=written tasks.path={path}")


def run(name: str | None = None) -> None:
    """The command line, for one name where a script gives it; what a user can fix is one line and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(_main)
    arguments = sys.argv[1:] if name is None else [name, *sys.argv[1:]]
    try:
        app(arguments)
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
