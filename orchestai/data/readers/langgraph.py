"""Graphs of LangGraph and LangChain, as `graph.get_graph().to_json()` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, load
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of
from orchestai.errors import UserError

_ENDS = ("__start__", "__end__")


def read(path: Path) -> Iterator[ReadPlan]:
    """One graph per JSON file, or a list or lines of them.

    A graph says what it is for in `instruction`, which `to_json` does not write: add it. A node's words are its
    `metadata.description`, else its name, else its id. Conditional edges are edges; a graph with a loop is no plan.
    """
    for file in files(path, "*.json", "*.jsonl"):
        content = load(file)
        graphs = content if isinstance(content, list) else [content]
        for index, graph in enumerate(graphs):
            if not isinstance(graph, dict) or not {"nodes", "edges"} <= graph.keys():
                raise UserError(f"{file}: graph {index}: `nodes` and `edges` are wanted")
        yield from plans_of(partial(_plan, file), count(), graphs)


def _plan(file: Path, index: int, graph: dict[str, Any]) -> SourcePlan:
    if not graph.get("instruction"):
        raise UnusablePlanError("no `instruction` that says what the graph is for")
    inner = [node for node in graph["nodes"] if str(node["id"]) not in _ENDS]
    edges = [(str(edge["source"]), str(edge["target"])) for edge in graph["edges"]]
    return SourcePlan(
        id=str(graph.get("id", f"{file.stem}/{index}")),
        source=str(graph.get("source", "langgraph")),
        licence=str(graph.get("licence", "")),
        task=one_line(graph["instruction"]),
        steps=tuple(SourceStep(str(node["id"]), _words(node)) for node in inner),
        edges=frozenset((a, b) for a, b in edges if a not in _ENDS and b not in _ENDS),
    )


def _words(node: dict[str, Any]) -> str:
    data = node.get("data")
    name = data.get("name") if isinstance(data, dict) else data
    described = (node.get("metadata") or {}).get("description")
    return one_line(str(described or name or node["id"])).replace("_", " ")
