"""What readers give: a plan of some source, and how it becomes a training example."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import networkx as nx

from orchestai.data.training_file import Entry, TrainingExample
from orchestai.workflow import Subtask, Workflow

_HALF = re.compile("[\ud800-\udfff]")


class UnusablePlanError(ValueError):
    """A record holds no plan that can be learned from; the message says why, in words that can be counted."""


@dataclass(frozen=True)
class SourceStep:
    """One node.

    Attributes:
        id: unique in its plan; two steps may have the same words.
        words: what is to be done.
        seconds: how long it takes, where the source says so.
    """

    id: str
    words: str
    seconds: float | None = None


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
        remarks: further sentences about the steps, such as constraints that the source states.
        tools: what may be used, a line each; stands behind the task.
    """

    id: str
    source: str
    licence: str
    task: str
    steps: tuple[SourceStep, ...]
    edges: frozenset[tuple[str, str]]
    remarks: tuple[str, ...] = ()
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
        if _HALF.search("\n".join([self.task, *words, *self.remarks, *self.tools])):
            raise UnusablePlanError("half a character (a lone surrogate)")
        if not all(step.seconds is None or (step.seconds >= 0 and math.isfinite(step.seconds)) for step in self.steps):
            raise UnusablePlanError("a duration that is no time")
        if any(end not in ids for edge in self.edges for end in edge):
            raise UnusablePlanError("an edge to a step that does not exist")
        graph = nx.DiGraph(list(self.edges))
        if not nx.is_directed_acyclic_graph(graph):
            raise UnusablePlanError("the edges form a cycle")

    def example(self, *, given: bool) -> TrainingExample:
        """As a training example without workers and types.

        Args:
            given: write the steps, numbered, into the instruction, so that the plan is their edges alone; else the
                instruction is the task with its tools, and a planner finds the steps as well.
        """
        place = {step.id: i for i, step in enumerate(self.steps)}
        asked = "\n".join([self.task, *self.tools])
        instruction, spans = written_out(asked, [step.words for step in self.steps], self.remarks)
        subtasks = [
            Subtask(
                id=step.id,
                instruction=step.words,
                depends_on=tuple(sorted((a for a, b in self.edges if b == step.id), key=place.__getitem__)),
                span=span if given else None,
            )
            for step, span in zip(self.steps, spans, strict=True)
        ]
        return TrainingExample(
            instruction=instruction if given else asked,
            task=self.task,
            workflow=Workflow(subtasks),
            seconds={step.id: step.seconds for step in self.steps if step.seconds is not None},
            task_id=self.id,
            suite=self.source,
            licence=self.licence,
            given=given,
        )


def written_out(
    task: str, steps: Iterable[str], remarks: Iterable[str] = ()
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The instruction for given steps, one numbered line each, and their [start, end) character offsets in it."""
    text, spans = task, []
    for number, words in enumerate(steps, start=1):
        text += f"\nStep {number}. "
        spans.append((len(text), len(text) + len(words)))
        text += words
    return "\n".join([text, *remarks]), tuple(spans)


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
        """The records of `path`, in an order that is always the same.

        Raises:
            UserError: it cannot be read, or is not of this source.
        """
        ...
