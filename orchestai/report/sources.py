"""What lies in a folder: execution logs, metrics, rollouts, evaluations, each recognized by its name or by its keys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from orchestai.errors import UserError
from orchestai.execution.record import ExecutionRecord
from orchestai.storage import artifacts

_MOST_PROBLEMS: Final = 50


def whole_lines(file: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """JSON lines as (`FILE:LINE`, value), one at a time, since a log may be larger than memory."""
    try:
        for line in artifacts.each_line(file):
            if isinstance(line, str):
                complain(problems, line.replace(f"{file.parent}/", ""))
            else:
                where, value = line
                yield where.replace(f"{file.parent}/", ""), value
    except UserError as error:
        complain(problems, str(error).replace(f"{file.parent}/", ""))


def complain(problems: list[str], complaint: str) -> None:
    """Add a complaint, unless there are so many that nobody reads on."""
    if len(problems) < _MOST_PROBLEMS:
        problems.append(complaint)
    elif len(problems) == _MOST_PROBLEMS:
        problems.append("and more lines that could not be read")


Feedback: TypeAlias = Mapping[str, Any]
"""`score` from 0 to 1, the right `answer`, `tests`; what was not said is None."""
ReadFeedback: TypeAlias = Callable[[], Mapping[str, Feedback]]
"""By run id; raises UserError where it cannot be read."""


@dataclass
class ServedFeedback:
    """Looked up for runs with a receipt; read when the first one is met.

    Attributes:
        scores: those of each run of the page.
    """

    read: ReadFeedback
    scores: dict[int, list[float]] = field(default_factory=dict)
    _known: Mapping[str, Feedback] | None = None

    def of(self, run: int, record: ExecutionRecord, problems: list[str]) -> Feedback | None:
        """What was said of an execution; None where nothing was."""
        if record.outcome != "unjudged" or record.receipt is None:
            return None
        if self._known is None:
            try:
                self._known = self.read()
            except UserError as error:
                self._known = {}
                complain(problems, f"feedback on served runs is not shown: {error}")
        given = self._known.get(record.receipt.run_id)
        if given is not None and given.get("score") is not None:
            self.scores.setdefault(run, []).append(given["score"])
        return given


Kind: TypeAlias = Literal["executions", "phase1", "phase2", "rollouts", "evaluation", "agents", "figures", "run"]
_BY_NAME: dict[str, Kind] = {
    "phase1_metrics.jsonl": "phase1",
    "phase2_metrics.jsonl": "phase2",
    "phase2_rollouts.jsonl": "rollouts",
}
_DEEPEST = 3
_LARGEST_JSON = 32 * 2**20
"""Larger JSON files are data to learn from, not figures."""
_CHECKPOINT_MARKS = {"SHA256SUMS", "agents.json"}


@dataclass(frozen=True)
class Source:
    """A file that the page can show.

    Attributes:
        value: of a JSON file, what it holds.
    """

    kind: Kind
    path: Path
    value: Any = None


@dataclass
class Found:
    """What a path holds.

    Attributes:
        name: the path's last part, for people.
        problems: what could not be read, and why.
    """

    name: str
    sources: list[Source] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Source]:
        return [source for source in self.sources if source.kind == kind]


def find(path: Path) -> Found:
    """Look through a file, or a folder and the folders in it; checkpoints are passed over."""
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; name a log, an evaluation or the folder of a run")
    found = Found(path.resolve().name or str(path))
    for file in _files(path) if path.is_dir() else [path]:
        try:
            source = _recognize(file)
        except (OSError, ValueError, RecursionError, UserError) as error:
            found.problems.append(f"{file.relative_to(path) if file != path else file.name}: not readable: {error}")
            continue
        if source is not None:
            found.sources.append(source)
        elif not path.is_dir():
            empty = "empty so far" if file.stat().st_size == 0 else "neither a log nor figures that this page can show"
            found.problems.append(f"{file.name}: {empty}")
    return found


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        if _CHECKPOINT_MARKS & set(files):
            folders.clear()
            continue
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and depth < _DEEPEST)
        for file in (Path(place) / name for name in sorted(files) if not name.startswith(".")):
            if file.is_file() or file.is_symlink():  # a pipe would be waited for
                yield file


def _recognize(file: Path) -> Source | None:
    if kind := _BY_NAME.get(file.name):
        return Source(kind, file)
    if file.suffix == ".jsonl":  # of executions, as its first whole line says
        torn = False
        for line in artifacts.each_line(file):
            if not isinstance(line, str):
                is_log = isinstance(line[1], dict) and "planner_outputs" in line[1]
                return Source("executions", file) if is_log else None
            torn = True
        if torn:
            raise ValueError("none of its lines is whole")
        return None
    if file.suffix != ".json" or file.stat().st_size > _LARGEST_JSON:
        return None
    with file.open("rb") as opened:
        if not opened.read(64).lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
            return None
    value = json.loads(file.read_bytes())
    if file.name.endswith(".run.json"):
        return Source("run", file, value)
    if isinstance(value.get("rows"), list) and "conclusion" in value:
        return Source("evaluation", file, value)
    if "workflow" in value and isinstance(value.get("episodes"), list):
        return Source("agents", file, value)
    return Source("figures", file, value) if _has_interval(value) else None


def _has_interval(value: Any) -> bool:
    if isinstance(value, dict):
        return {"mean", "low", "high"} <= value.keys() or any(map(_has_interval, value.values()))
    return False
