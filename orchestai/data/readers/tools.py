"""Lists of tools, tables or actions as WorFBench prints them: in Python's notation, or as lines of text."""

from __future__ import annotations

from typing import Any

from orchestai.data.readers.plan import one_line
from orchestai.text.syntax import parse_literal


def tool_lines(text: str) -> tuple[str, ...]:
    """A line for each thing that may be used: `name(parameters): description`, without what the parameters mean.

    A list of plain words is sorted, and each is there once: WorFBench's wikihow list has the steps of the plan without
    a line break at their ends and all others with one, and the former often twice, which would give the plan away.
    """
    try:
        found = parse_literal(text.strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return tuple(line for line in map(one_line, text.splitlines()) if line)
    if isinstance(found, dict):
        return tuple(one_line(f"{name}: {_described(what)}") for name, what in found.items())
    entries = found if isinstance(found, list | tuple | set) else [found]
    if all(isinstance(entry, dict) for entry in entries):
        return tuple(map(_tool, entries))
    return tuple(sorted({one_line(str(entry)) for entry in entries}))


def _tool(entry: dict[str, Any]) -> str:
    name = entry.get("name", entry.get("api_name", ""))
    what = entry.get("description", entry.get("api_description", ""))
    parameters = entry.get("parameters") or {}
    names = parameters.get("properties", parameters)
    return one_line(f"{name}({', '.join(map(str, names))}): {_described(what)}")


def _described(what: object) -> str:
    return ", ".join(map(str, what)) if isinstance(what, list | tuple) else str(what)
