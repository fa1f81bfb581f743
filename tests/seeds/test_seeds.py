"""What docs/seeds.md says of the documents that the product grew from is so: every row runs its own checks."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch

import pytest

from support.repository import REPOSITORY
from support.training.seed_rows import CHECKS, read_rows, run_check

ROWS = read_rows()


@pytest.fixture(scope="module", autouse=True)
def _in_the_repository(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the seeds' commands are typed; and an `accelerate` first on the path that says what it was given."""
    folder = tmp_path_factory.mktemp("bin")
    stand_in = folder / "accelerate"
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    stand_in.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(REPOSITORY)
        patch.setenv("SEEDS_BIN", str(folder))
        yield


@pytest.mark.parametrize("seed", sorted({row.seed for row in ROWS}))
def test_each_row_is_as_it_says(seed: str) -> None:
    wrong: dict[str, Exception] = {}
    for row in [row for row in ROWS if row.seed == seed]:
        try:
            for check in row.checks:
                run_check(check)
        except Exception as error:  # all rows that are wrong are named together
            wrong[str(row)] = error
    assert wrong == {}


def test_what_should_work_or_be_refused_is_checked() -> None:
    """A row without a check says in words why nothing can run: it is for later, or not meant."""
    unchecked = [str(row) for row in ROWS if not row.checks and row.verdict not in ("later", "not meant")]
    assert not unchecked
    assert all(check.split()[0] in CHECKS for row in ROWS for check in row.checks)
    assert all("refuses" in "".join(row.checks) for row in ROWS if row.verdict == "refused")


def test_the_readme_names_all_that_lies_at_the_top() -> None:
    """Whoever clones it finds what was asked for, and beside it little, which is explained."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    entries = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    text = (REPOSITORY / "README.md").read_text()
    table = text.partition("## What lies where")[2].partition("\n## ")[0]
    patterns = [name.rstrip("/") for name in re.findall(r"`([^`]+)`", table)]
    usual = {"LICENSE", "README.md"}
    unnamed = {name for name in entries - usual if not name.startswith(".")}
    assert not {name for name in unnamed if not any(fnmatch(name, pattern) for pattern in patterns)}
    assert len(entries) < 36
