"""Break (Wolfson et al. 2020, arXiv 2001.11770): questions that people asked, which other people split into steps.

The source is `break`, or `break_high_level` for decompositions into fewer, longer steps, each followed by `_worded`
where the references are put into words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, records
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, one_line, plans_of
from orchestai.data.readers.reference_wording import REFERENCE, worded
from orchestai.errors import UserError
from orchestai.tasks.table_files import read_table

LICENCE = "MIT"
_COLUMNS = ("question_id", "question_text", "decomposition")
_PATTERNS = ("*.jsonl", "*.csv", "QDMR/*.csv", "QDMR-high-level/*.csv")


def read(path: Path) -> Iterator[ReadPlan]:
    """Plans of a .jsonl or .csv file with the columns of the published ones, or of all in a folder.

    Those of a file or folder with `high` in its name are high-level ones. A step says which steps it needs as `#2`.
    """
    return _read(path, in_words=False)


def read_worded(path: Path) -> Iterator[ReadPlan]:
    """The same, with the references in words, always the same ones for a plan's id (see `reference_wording`)."""
    return _read(path, in_words=True)


def _read(path: Path, *, in_words: bool) -> Iterator[ReadPlan]:
    for file in files(path, *_PATTERNS):
        rows = _table(file) if ".csv" in file.suffixes else records(file, "Break", *_COLUMNS)
        high = any("high" in name for name in (file.name, file.parent.name))
        source = "_".join(["break", *(["high_level"] if high else []), *(["worded"] if in_words else [])])
        yield from plans_of(partial(_plan, source, in_words=in_words), rows)


def _table(file: Path) -> list[dict[str, Any]]:
    rows = [row for _, row in read_table(file, "plan")]
    if not set(_COLUMNS) <= rows[0].keys():
        raise UserError(f"{file}: not a file of Break, whose columns are {', '.join(_COLUMNS)}")
    return rows


def _plan(source: str, row: dict[str, Any], *, in_words: bool) -> SourcePlan:
    steps = [one_line(words) for words in row["decomposition"].split(";")]
    said = worded(steps, row["question_id"]) if in_words else steps
    return SourcePlan(
        id=row["question_id"],
        source=source,
        licence=LICENCE,
        task=one_line(row["question_text"]),
        steps=tuple(SourceStep(str(number), words) for number, words in enumerate(said, start=1)),
        edges=frozenset(
            (str(int(parent)), str(child))
            for child, words in enumerate(steps, start=1)
            for parent in REFERENCE.findall(words)
        ),
    )
