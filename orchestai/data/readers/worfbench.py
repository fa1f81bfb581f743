"""WorFBench (Qiao et al. 2025, arXiv 2410.07869): chats whose last turn lists nodes, then edges from START to END."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, records
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of
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


LICENCE = "MIT"
_NODES = re.compile(r"Node:\s*\n(.*?)\n(?:Edges?|Graph):", re.DOTALL)
_NODE = re.compile(r"^\s*(\d+)\s*[:.]\s*(.+)$", re.MULTILINE)
_EDGE = re.compile(r"\(\s*(START|\d+)\s*,\s*(END|\d+)\s*\)")
_LEAD = re.compile(r"\A(?:Now it's your turn\.\s*)?(?:Task:)?\s*|\A.*?\bYour task is to:\s*", re.DOTALL)
_TOOLS = re.compile(r"\s*(?:Output:\s*)?(?:The (?:action|api|tool) list[^:]*|api_list|The database tables and[^:]*):")


def read(path: Path, *, tools: bool = False) -> Iterator[ReadPlan]:
    """Chats of a JSON list; of a folder, of all its .json and .json.gz files.

    Args:
        tools: with the tools, tables or actions that the benchmark's own prompts list, a line each.
    """
    for file in files(path, "*.json"):
        yield from plans_of(partial(_plan, tools=tools), records(file, "WorFBench", "conversations"))


def _plan(chat: dict[str, Any], *, tools: bool) -> SourcePlan:
    turns = {turn["role"]: turn["content"] for turn in chat["conversations"]}
    answer = turns["assistant"]
    found = _NODES.search(answer)
    if found is None:
        raise UnusablePlanError("no list of nodes before the edges")
    nodes = _NODE.findall(found[1])
    if len(nodes) < sum(bool(line.strip()) for line in found[1].splitlines()) / 2:
        raise UnusablePlanError("nodes that cannot be told apart")
    asked, *listed = _TOOLS.split(turns["user"], maxsplit=1)
    edges = _EDGE.findall(answer[found.end() :])
    if not edges:
        raise UnusablePlanError("no edges")
    return SourcePlan(
        id=str(chat["id"]),
        source=str(chat["source"]),
        licence=LICENCE,
        task=_task(asked),
        tools=("Tools:", *tool_lines(listed[0])) if tools and listed else (),
        steps=tuple(SourceStep(number, one_line(words)) for number, words in nodes),
        edges=frozenset((a, b) for a, b in edges if a != "START" and b != "END"),
    )


def _task(text: str) -> str:
    """What is asked, without the words before it."""
    if "Your task is to:" in text:
        text = text.split("Your task is to:", 1)[1]
    return one_line(_LEAD.sub("", text, count=1))
