"""Readers of plans: each turns the files of one source into plans. See docs/plans.md for a reader of your own."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import networkx as nx

from orchestai.data.training_file import Entry, TrainingExample
from orchestai.errors import UserError
from orchestai.plugins import find_object, find_plugin, there_are
from orchestai.tasks.instructions import NAME, SPLIT_OF, SyntheticInstruction
from orchestai.tasks.records import read_file, read_table
from orchestai.text.syntax import parse_literal
from orchestai.workflow import Subtask, Workflow, WorkflowError

_HALF = re.compile("[\ud800-\udfff]")


class UnusablePlanError(ValueError):
    """A record holds no plan that can be learned from; the message says why, in words that can be counted."""


@dataclass(frozen=True)
class SourceStep:
    """One node.

    Attributes:
        id: unique in its plan; two steps may have the same words.
        words: what is to be done.
    """

    id: str
    words: str


@dataclass(frozen=True)
class SourcePlan:
    """One plan of a source.

    Attributes:
        id: unique in its source.
        source: whose plan it is; figures are given per source.
        licence: of the source.
        task: what is to be done, without the steps.
        steps: in the order in which the source lists them.
        edges: (id of the parent, id of the child).
        tools: what may be used, a line each; stands behind the task.
    """

    id: str
    source: str
    licence: str
    task: str
    steps: tuple[SourceStep, ...]
    edges: frozenset[tuple[str, str]]
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ids = [step.id for step in self.steps]
        if not ids:
            raise UnusablePlanError("no steps")
        if not self.task or not all(step.words for step in self.steps):
            raise UnusablePlanError("a task or a step without words")
        if len(set(ids)) < len(ids):
            raise UnusablePlanError("two steps with the same id")
        words = (step.words for step in self.steps)
        if _HALF.search("\n".join([self.task, *words, *self.tools])):
            raise UnusablePlanError("half a character (a lone surrogate)")
        if any(end not in ids for edge in self.edges for end in edge):
            raise UnusablePlanError("an edge to a step that does not exist")
        graph = nx.DiGraph(list(self.edges))
        if not nx.is_directed_acyclic_graph(graph):
            raise UnusablePlanError("the edges form a cycle")

    def example(self) -> TrainingExample:
        """As a training example without workers and types: the instruction is the task with its tools."""
        place = {step.id: i for i, step in enumerate(self.steps)}
        parents = {b: sorted((a for a, to in self.edges if to == b), key=place.__getitem__) for b in place}
        return TrainingExample(
            instruction="\n".join([self.task, *self.tools]),
            task=self.task,
            workflow=Workflow(
                [Subtask(id=s.id, instruction=s.words, depends_on=tuple(parents[s.id])) for s in self.steps]
            ),
            task_id=self.id,
            suite=self.source,
            licence=self.licence,
        )


def one_line(text: str) -> str:
    """The text without line breaks and doubled spaces."""
    return re.sub(r"\s+", " ", text).strip()


ReadPlan: TypeAlias = "SourcePlan | Entry | TrainingExample | UnusablePlanError"
"""A record: a plan, an entry of a training file, an example that is ready, or the reason why it is none of these."""


def plans_of(make: Callable[..., SourcePlan | Entry | TrainingExample], *records: Iterable[Any]) -> Iterator[ReadPlan]:
    """As `map(make, *records)`, but where `make` cannot use a record its reason."""
    for record in zip(*records, strict=False):
        try:
            yield make(*record)
        except UnusablePlanError as reason:
            yield reason
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            yield UnusablePlanError(f"a record of another shape ({type(error).__name__}: {one_line(str(error))})")


class Reader(Protocol):
    """Reads the plans of one file or folder.

    A record without a usable plan is given as its reason (`UnusablePlanError`), not raised, so that the others are kept
    and the reason is counted.
    """

    def __call__(self, path: Path) -> Iterable[ReadPlan]:
        """The records of `path`, in an order that is always the same."""
        ...


def files(path: Path, *patterns: str) -> list[Path]:
    """The file itself, or the files of a folder that fit one of the patterns, by name, in any case of letters; with
    gzip (.gz), too, but for Parquet.

    What this program writes beside its training files (.meta.json, .run.json) is left out of a folder.
    """
    found = [path]
    if path.is_dir():
        fits = {
            file
            for pattern in patterns
            for end in (("",) if pattern.endswith(".parquet") else ("", ".gz"))
            for file in path.glob("".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in pattern + end))
        }
        found = sorted(file for file in fits if not file.name.endswith((".meta.json", ".run.json")))
    if not found or not found[0].exists():
        raise UserError(f"{path}: no such file, or a folder without any of {', '.join(patterns)}")
    return found


def load(file: Path) -> Any:
    """The JSON value of a file, or the list of those of its lines (.jsonl); gzip (.gz) is understood."""
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = content.decode("utf-8")
        if file.name.removesuffix(".gz").endswith(".jsonl"):
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        return json.loads(text)
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        raise UserError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None


def records(file: Path, source: str, *keys: str) -> list[dict[str, Any]]:
    """The records of a file, which are mappings with these keys at least."""
    found = load(file)
    if not isinstance(found, list) or not all(isinstance(one, dict) and set(keys) <= one.keys() for one in found):
        raise UserError(f"{file}: not a file of {source}, whose records have {', '.join(keys)}")
    return found


def read_orchestai(path: Path) -> Iterator[ReadPlan]:
    """Entries of a JSON list or of JSON lines.

    An entry with `workflow` or `targets` is an example of a training file and stays as it is. Any other is a plan:
    `instruction`, `subtasks` as `orchestai plan` prints them, and if need be `id`, `source` and `licence`.
    """
    for file in files(path, "*.json", "*.jsonl"):
        entries = load(file)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{file}: a list of plans is wanted, or one plan a line")
        yield from plans_of(partial(_entry, file), count(), entries)


def _entry(file: Path, index: int, entry: dict[str, Any]) -> Entry | SourcePlan:
    if "workflow" in entry or "targets" in entry:
        return Entry(entry, f"{file}: example {index}")
    if not {"instruction", "subtasks"} <= entry.keys():
        raise UserError(f"{file}: entry {index}: a plan needs `instruction` and `subtasks`")
    try:
        workflow = Workflow(entry["subtasks"])
    except WorkflowError as error:
        raise UnusablePlanError(f"not a workflow: {error}") from None
    return SourcePlan(
        id=str(entry.get("id", f"{file.stem}/{index}")),
        source=str(entry.get("source", "own")),
        licence=str(entry.get("licence", "")),
        task=one_line(entry["instruction"]),
        steps=tuple(SourceStep(s.id, one_line(s.instruction)) for s in workflow.subtasks),
        edges=frozenset(workflow.edges()),
    )


def read_instructions(path: Path) -> Iterator[ReadPlan]:
    """Read the instructions of all styles in a folder, or of one file.

    Each stays in the split of its style, so that no style is both learned from and tested on. Styles that the suite
    does not know are training data.
    """
    for file in files(path, "*.jsonl"):
        split: Any = SPLIT_OF.get(file.stem, "train")

        def example(record: dict[str, Any], split: Any = split) -> TrainingExample:
            one = SyntheticInstruction.model_validate(record)
            facts = {"task_id": one.id, "suite": NAME, "licence": "Apache-2.0", "split": split}
            return TrainingExample(instruction=one.instruction, workflow=one.workflow(), **facts)

        yield from plans_of(example, (record for _, record in read_file(file)))


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

    def told(name: str, what: object) -> str:
        described = ", ".join(map(str, what)) if isinstance(what, list | tuple) else str(what)
        return one_line(f"{name}: {described}")

    def tool(entry: dict[str, Any]) -> str:
        parameters = entry.get("parameters") or {}
        names = ", ".join(map(str, parameters.get("properties", parameters)))
        name = entry.get("name", entry.get("api_name", ""))
        return told(f"{name}({names})", entry.get("description", entry.get("api_description", "")))

    if isinstance(found, dict):
        return tuple(told(name, what) for name, what in found.items())
    entries = found if isinstance(found, list | tuple | set) else [found]
    if all(isinstance(entry, dict) for entry in entries):
        return tuple(map(tool, entries))
    return tuple(sorted({one_line(str(entry)) for entry in entries}))


def read_asynchow(path: Path) -> Iterator[ReadPlan]:
    """Everyday plans of AsyncHow (Lin et al. 2024, arXiv 2402.02805), of a .jsonl(.gz) file or a folder.

    The source is named after the file: `asynchow` for the benchmark itself (async_...), `asynchow_para` and
    `asynchow_seq` for its fully parallel and its sequential plans.
    """
    for file in files(path, "*.jsonl"):
        part = file.name.split("_")[0].split(".")[0]
        rows = records(file, "AsyncHow", "titles", "steps", "edge_list")
        yield from plans_of(partial(_asynchow_plan, part), count(), rows)


def _asynchow_plan(part: str, index: int, row: dict[str, Any]) -> SourcePlan:
    return SourcePlan(
        id=f"{part}_{index}",
        source="asynchow" if part == "async" else f"asynchow_{part}",
        licence=_LICENCE,
        task=one_line(row["titles"]),
        steps=tuple(SourceStep(str(number), one_line(words)) for number, words in enumerate(row["steps"], 1)),
        edges=frozenset((a, b) for a, b in row["edge_list"] if a != "START" and b != "END"),
    )


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


READERS: dict[str, Reader] = {
    "worfbench": read_worfbench,
    "worfbench-tools": partial(read_worfbench, tools=True),
    "asynchow": read_asynchow,
    "break": read_break,
    "orchestai": read_orchestai,
    "instructions": read_instructions,
}


def find_reader(name: str) -> Reader:
    """A reader of plans by its name, as `named_reader`."""
    reader: Reader = named_reader("readers", READERS, "--from", name)
    return reader


def named_reader(
    group: Literal["readers", "table_readers"], own: Mapping[str, Callable[..., Any]], option: str, name: str
) -> Any:
    """A built-in reader or one of an installed package by its name, or a user's own as `MODULE:FUNCTION`.

    The module may lie in the working directory.
    """
    if name in own:
        return own[name]
    if (plugin := find_plugin(group, name)) is not None:
        return plugin
    module, _, function = name.partition(":")
    if not module or not function:
        raise UserError(f"{option}: no reader {name!r}; {there_are(group, own, name)}")
    try:
        reader = find_object(name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{option}: cannot load the reader {name!r}: {error}") from None
    if not callable(reader):
        raise UserError(f"{option}: {name!r} is no function that reads a path")
    return reader
