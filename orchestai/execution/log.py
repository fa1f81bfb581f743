"""The execution log: JSON lines, each appended whole, read back with every fault reported and skipped."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orchestai.errors import UserError, first_problem
from orchestai.execution.record import SCHEMA_VERSION, ExecutionRecord, PlanOutputs, RunOutputs
from orchestai.execution.result import JudgedExecution
from orchestai.storage import artifacts

_TEXTS = frozenset(
    {"instruction", "role", "answer", "prompt", "output", "outputs", "error", "why_next", "arguments", "degraded"}
)
"""Fields that hold what somebody said, or may quote it."""


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON-like data in which every text that somebody said is changed."""
    if isinstance(value, Mapping):
        return {
            name: _changed(part, change) if name in _TEXTS else each_text(part, change) for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [each_text(part, change) for part in value]
    return value


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(part, change) for name, part in value.items()}
    return [_changed(part, change) for part in value] if isinstance(value, list | tuple) else value


def keeping(change: Callable[[str], str]) -> Callable[[ExecutionRecord], ExecutionRecord]:
    """What changes every text of a record; spans of the instruction are gone, since they say where its words were."""

    def keep(record: ExecutionRecord) -> ExecutionRecord:
        data = each_text(record.model_dump(mode="json"), change)
        for subtask in data["subtasks"]:
            subtask["span"] = None
        return ExecutionRecord.model_validate(data)

    return keep


class ExecutionLog:
    """Appends executions to one file of a directory; every run writes a file of its own.

    A line is appended by a single write under a lock, so several processes may share a directory, and even a file. A
    crash loses at most the line that was being written; the next append begins on a line of its own.

    Args:
        directory: created when the first line is written.
        run_id: name of the file, without `.jsonl`; a new one unless given.
    """

    def __init__(self, directory: Path | str, run_id: str | None = None) -> None:
        self.directory = Path(directory)
        self.run_id = run_id or f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:6]}"

    @property
    def path(self) -> Path:
        return self.directory / f"{self.run_id}.jsonl"

    def check(self) -> None:
        """Raise `UserError` where nothing can be appended, before anything is paid for."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab"):
                pass
            if not self.path.stat().st_size:
                self.path.unlink()
        except OSError as error:
            raise UserError(
                f"{self.directory}: the execution log cannot be written there ({error.strerror or error}); name "
                "another folder"
            ) from None

    def append(self, *records: ExecutionRecord, flush: bool = True) -> None:
        """Append a line per record.

        Args:
            flush: whether they are on the disk on return; else `flush` must follow.

        Raises:
            UserError: they could not be written; the file is then as it was before.
        """
        lines = [record.model_copy(update={"run_id": self.run_id}).model_dump_json() + "\n" for record in records]
        artifacts.append(self.path, "".join(lines).encode(), flush=flush)

    def flush(self) -> None:
        """Wait until all that was appended is on the disk; nothing where that fails."""
        with suppress(OSError), self.path.open("ab") as file:
            os.fsync(file.fileno())

    def log_execution(
        self,
        *,
        instruction: str,
        planner_outputs: Mapping[str, Any],
        execution_result: JudgedExecution | Mapping[str, Any],
    ) -> None:
        """Append an execution of one's own orchestration, given as plain lists (or arrays) and numbers.

        Args:
            planner_outputs: `model_selections` and `workflow_graph.adjacency`, and `task_types` if known.
            execution_result: `success`, `outputs`, `total_cost` (US dollars) and `total_latency_ms`.

        Raises:
            UserError: a field is missing or has a wrong type, or the line could not be written.
        """
        try:
            result = RunOutputs.model_validate(execution_result, from_attributes=True)
            self.append(
                ExecutionRecord(
                    instruction=instruction,
                    success=result.success,
                    cost=result.total_cost,
                    latency_ms=result.total_latency_ms,
                    planner_outputs=PlanOutputs.model_validate(_plain(planner_outputs)),
                    execution_result=result,
                )
            )
        except ValidationError as error:
            raise UserError(f"log_execution: {first_problem(error)}") from None

    def read(self) -> LogContents:
        """Everything in the directory, whoever wrote it; nothing if it does not exist yet."""
        return read_log(self.directory) if self.directory.exists() else LogContents()


@dataclass(frozen=True)
class LogContents:
    """What a log holds.

    Attributes:
        records: in the order of the files' names and of their lines.
        problems: `FILE:LINE: what is wrong` for each line that was skipped.
    """

    records: list[ExecutionRecord] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_log(paths: Path | str | Sequence[Path | str]) -> LogContents:
    """Read log files, and all `.jsonl` files of directories.

    Raises:
        UserError: a path does not exist or cannot be read, or a line was written by a newer version.
    """
    contents = LogContents()
    for path in [paths] if isinstance(paths, str | Path) else paths:
        for file in _files(Path(path)):
            lines, problems = artifacts.read_lines(file)
            contents.problems.extend(problems)
            for where, line in lines:
                _read_line(line, where, contents)
    return contents


def forget_old_logs(directory: Path, days: int) -> list[Path]:
    """Remove the files of a log to which nobody has written for so many days, and give their names."""
    oldest = time.time() - days * 86_400
    old = [path for path in directory.glob("*.jsonl") if path.stat().st_mtime < oldest]
    for path in old:
        path.unlink(missing_ok=True)
    return old


def _read_line(raw: Any, where: str, contents: LogContents) -> None:
    if isinstance(raw, dict) and isinstance(version := raw.get("schema_version"), int) and version > SCHEMA_VERSION:
        raise UserError(
            f"{where}: schema_version is {version}, this program reads up to {SCHEMA_VERSION}; "
            "use the version that wrote it, or leave the file out"
        )
    try:
        contents.records.append(ExecutionRecord.model_validate(raw))
    except ValidationError as error:
        contents.problems.append(f"{where}: not an execution: {first_problem(error)}; skipped")


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.glob("*.jsonl"))
    elif path.exists():
        yield path
    else:
        raise UserError(f"{path}: no such log; collect executions first, or pass --logs PATH")


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


_FLUSH_S = 1.0


class LogQueue:
    """Appends to a log beside the event loop.

    A line that was appended outlives the process; within a second it is on the disk, and outlives the machine.
    """

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._one_at_a_time = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()
        self._flushing: asyncio.Task[None] | None = None

    async def append(self, record: ExecutionRecord) -> None:
        """Append a line. Whoever is cancelled while it waits does not undo it.

        Raises:
            UserError: it could not be written.
        """
        written = asyncio.ensure_future(self._write(record))
        self._writing.add(written)
        written.add_done_callback(self._writing.discard)
        await asyncio.shield(written)

    async def close(self) -> None:
        """Write what waits, and flush."""
        await asyncio.gather(*self._writing, return_exceptions=True)
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
            await asyncio.to_thread(self._log.flush)

    async def _write(self, record: ExecutionRecord) -> None:
        async with self._one_at_a_time:
            await asyncio.to_thread(self._log.append, record, flush=False)
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(_FLUSH_S)
        self._flushing = None
        await asyncio.to_thread(self._log.flush)
