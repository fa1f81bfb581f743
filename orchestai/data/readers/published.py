"""Published plans: WorFBench, AsyncHow and Break, all under the MIT license."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, records
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of
from orchestai.errors import UserError
from orchestai.tasks.records import read_table
from orchestai.text.syntax import parse_literal

_LICENCE = "MIT"
_NODES = re.compile(r"Node:\s*\n(.*?)\n(?:Edges?|Graph):", re.DOTALL)
_NODE = re.compile(r"^\s*(\d+)\s*[:.]\s*(.+)$", re.MULTILINE)
_EDGE = re.compile(r"\(\s*(START|\d+)\s*,\s*(END|\d+)\s*\)")
_LEAD = re.compile(r"\A(?:Now it's your turn\.\s*)?(?:Task:)?\s*|\A.*?\bYour task is to:\s*", re.DOTALL)
_TOOLS = re.compile(r"\s*(?:Output:\s*)?(?:The (?:action|api|tool) list[^:]*|api_list|The database tables and[^:]*):")


def read_worfbench(path: Path, *, tools: bool = False) -> Iterator[ReadPlan]:
    """Chats of WorFBench (Qiao et al. 2025, arXiv 2410.07869), whose last turn lists nodes, then edges.

    They are those of a JSON list; of a folder, of all its .json and .json.gz files.

    Args:
        tools: with the tools, tables or actions that the benchmark's own prompts list, a line each.
    """
    for file in files(path, "*.json"):
        yield from plans_of(partial(_worfbench_plan, tools=tools), records(file, "WorFBench", "conversations"))


def _worfbench_plan(chat: dict[str, Any], *, tools: bool) -> SourcePlan:
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
        licence=_LICENCE,
        task=one_line(_LEAD.sub("", asked.split("Your task is to:", 1)[-1], count=1)),
        tools=("Tools:", *tool_lines(listed[0])) if tools and listed else (),
        steps=tuple(SourceStep(number, one_line(words)) for number, words in nodes),
        edges=frozenset((a, b) for a, b in edges if a != "START" and b != "END"),
    )


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


_WORDINGS = (
    "Before starting step {b}, complete step {a}.",
    "Step {a} must precede step {b}.",
    "Upon completing step {a}, proceed to step {b}.",
    "After step {a}, step {b} should commence.",
    "Prioritize step {a} before advancing to step {b}.",
    "Step {a} is a prerequisite for step {b}.",
    "Initiate step {b} subsequent to step {a}.",
    "Ensure step {a} is done before step {b}.",
    "Sequence the tasks: firstly step {a}, then step {b}.",
    "Step {b} follows the completion of step {a}.",
)
"""The ten in which the benchmark states an ordering constraint to the models that it tests."""


def read_asynchow(path: Path, *, stated: bool = False) -> Iterator[ReadPlan]:
    """Everyday plans with durations of AsyncHow (Lin et al. 2024, arXiv 2402.02805), of a .jsonl(.gz) file or a folder.

    Which step needs which is not said. The source is named after the file: `asynchow` for the benchmark itself
    (async_...), `asynchow_para` and `asynchow_seq` for its fully parallel and its sequential plans, each followed by
    `_stated` where the constraints are stated.

    Args:
        stated: all ordering constraints stand behind the steps, sorted, as the benchmark's own prompts have them, in
            one of the ten wordings, which depends on the plan's id.
    """
    for file in files(path, "*.jsonl"):
        part = file.name.split("_")[0].split(".")[0]
        rows = records(file, "AsyncHow", "titles", "steps", "edge_list")
        yield from plans_of(partial(_asynchow_plan, part, stated=stated), count(), rows)


def _asynchow_plan(part: str, index: int, row: dict[str, Any], *, stated: bool) -> SourcePlan:
    plan_id = f"{part}_{index}"
    edges = sorted((a, b) for a, b in row["edge_list"] if a != "START" and b != "END")
    wording = _WORDINGS[hashlib.sha256(plan_id.encode()).digest()[0] % len(_WORDINGS)]
    said = [line[0].upper() + line[1:] for line in sorted(wording.format(a=a, b=b) for a, b in edges)]
    return SourcePlan(
        id=plan_id,
        source="_".join(["asynchow", *([part] if part != "async" else []), *(["stated"] if stated else [])]),
        licence=_LICENCE,
        task=one_line(row["titles"]),
        steps=tuple(
            SourceStep(str(number), one_line(words), _seconds(row, str(number)))
            for number, words in enumerate(row["steps"], start=1)
        ),
        edges=frozenset(edges),
        remarks=tuple(said or ["All steps can be executed in parallel."]) if stated else (),
    )


def _seconds(row: dict[str, Any], step: str) -> float | None:
    """The longer end of the step's duration: a month may have 28 to 31 days."""
    ends = row.get("timedelta_dic", {}).get(step)
    return None if ends is None else float(ends[-1]["seconds"])


_COLUMNS = ("question_id", "question_text", "decomposition")


def read_break(path: Path) -> Iterator[ReadPlan]:
    """Questions of Break (Wolfson et al. 2020, arXiv 2001.11770), of a .jsonl or .csv file or of all in a folder.

    The columns are the published ones. A step says which steps it needs as `#2`. The source is `break`, or
    `break_high_level` for a file or folder with `high` in its name: decompositions into fewer, longer steps.
    """
    for file in files(path, "*.jsonl", "*.csv", "QDMR/*.csv", "QDMR-high-level/*.csv"):
        if ".csv" in file.suffixes:
            rows = [row for _, row in read_table(file, "plan")]
            if not set(_COLUMNS) <= rows[0].keys():
                raise UserError(f"{file}: not a file of Break, whose columns are {', '.join(_COLUMNS)}")
        else:
            rows = records(file, "Break", *_COLUMNS)
        high = any("high" in name for name in (file.name, file.parent.name))
        yield from plans_of(partial(_break_plan, "break_high_level" if high else "break"), rows)


def _break_plan(source: str, row: dict[str, Any]) -> SourcePlan:
    steps = [one_line(words) for words in row["decomposition"].split(";")]
    return SourcePlan(
        id=row["question_id"],
        source=source,
        licence=_LICENCE,
        task=one_line(row["question_text"]),
        steps=tuple(SourceStep(str(number), words) for number, words in enumerate(steps, start=1)),
        edges=frozenset(
            (str(int(parent)), str(child))
            for child, words in enumerate(steps, start=1)
            for parent in re.findall(r"#(\d+)", words)
        ),
    )
