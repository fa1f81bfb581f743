"""What of a run is kept: all of it, no text, or texts that a function of the user's has gone over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestai.execution.record import ExecutionRecord

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
