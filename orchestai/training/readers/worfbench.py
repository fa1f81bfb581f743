"""WorFBench (Qiao et al. 2025, arXiv 2410.07869): chats whose last turn lists nodes, then edges from START to END."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestai.training.readers.files import files, records
from orchestai.training.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of

LICENCE = "MIT"
_NODES = re.compile(r"Node:\s*\n(.*?)\n(?:Edges?|Graph):", re.DOTALL)
_NODE = re.compile(r"^\s*(\d+)\s*[:.]\s*(.+)$", re.MULTILINE)
_EDGE = re.compile(r"\(\s*(START|\d+)\s*,\s*(END|\d+)\s*\)")
_LEAD = re.compile(r"\A(?:Now it's your turn\.\s*)?(?:Task:)?\s*|\A.*?\bYour task is to:\s*", re.DOTALL)
_TOOLS = re.compile(r"\s*(?:Output:\s*)?(?:The (?:action|api|tool) list|api_list:|The database tables and)")


def read(path: Path) -> Iterator[ReadPlan]:
    """Chats of a JSON list; of a folder, of all its .json and .json.gz files. The list of tools is left out."""
    for file in files(path, "*.json"):
        yield from plans_of(_plan, records(file, "WorFBench", "conversations"))


def _plan(chat: dict[str, Any]) -> SourcePlan:
    turns = {turn["role"]: turn["content"] for turn in chat["conversations"]}
    answer = turns["assistant"]
    found = _NODES.search(answer)
    if found is None:
        raise UnusablePlanError("no list of nodes before the edges")
    nodes = _NODE.findall(found[1])
    if len(nodes) < sum(bool(line.strip()) for line in found[1].splitlines()) / 2:
        raise UnusablePlanError("nodes that cannot be told apart")
    edges = _EDGE.findall(answer[found.end() :])
    if not edges:
        raise UnusablePlanError("no edges")
    return SourcePlan(
        id=str(chat["id"]),
        source=str(chat["source"]),
        licence=LICENCE,
        task=_task(turns["user"]),
        steps=tuple(SourceStep(number, one_line(words)) for number, words in nodes),
        edges=frozenset((a, b) for a, b in edges if a != "START" and b != "END"),
    )


def _task(user: str) -> str:
    """What is asked, without what may be used for it."""
    text = _TOOLS.split(user, maxsplit=1)[0]
    if "Your task is to:" in text:
        text = text.split("Your task is to:", 1)[1]
    return one_line(_LEAD.sub("", text, count=1))
