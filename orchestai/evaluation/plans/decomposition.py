"""How close planned decompositions come to the reference ones; workers play no part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestai.workflow import Subtask, Workflow

_SAME_STEP = 0.5
"""Two spans name the same step when their overlap is at least this share of their union."""


@dataclass(frozen=True)
class Decomposition:
    """Shares in [0, 1] over `n` tasks that have a reference and a plan or none.

    Attributes:
        exact: plans equal to the reference in number of steps, their words, types and parents (in argument order).
        step_f1: steps found.
        edge_f1: edges between steps that were found.
    """

    n: int
    exact: float
    step_f1: float
    edge_f1: float


def compare(plans: Sequence[Workflow | None], references: Sequence[Workflow]) -> Decomposition | None:
    """Compare plan by plan; a missing plan finds nothing. None where there is nothing to compare."""
    if not references:
        return None
    exact = 0
    steps, edges = _Counts(), _Counts()
    for plan, reference in zip(plans, references, strict=True):
        planned = plan.subtasks if plan else ()
        match = _match(planned, reference.subtasks)
        steps.add(found=len(match), planned=len(planned), wanted=len(reference))
        wanted = set(_edges(reference.subtasks))
        drawn = [(match.get(parent), match.get(child)) for parent, child in _edges(planned)]
        edges.add(found=sum(edge in wanted for edge in drawn), planned=len(drawn), wanted=len(wanted))
        exact += plan is not None and _equal(plan, reference, match)
    return Decomposition(len(references), exact / len(references), steps.f1(), edges.f1())


class _Counts:
    def __init__(self) -> None:
        self._found = self._total = 0

    def add(self, *, found: int, planned: int, wanted: int) -> None:
        self._found += found
        self._total += planned + wanted

    def f1(self) -> float:
        """1 where there was nothing to find and nothing was claimed."""
        return 2 * self._found / self._total if self._total else 1.0


def _edges(subtasks: Iterable[Subtask]) -> list[tuple[str, str]]:
    return [(parent, subtask.id) for subtask in subtasks for parent in subtask.depends_on]


def _match(planned: Sequence[Subtask], wanted: Sequence[Subtask]) -> dict[str, str]:
    """Planned id -> reference id, one to one, best overlaps first."""
    overlaps = sorted(
        ((_overlap(ours, theirs), i, j) for i, ours in enumerate(planned) for j, theirs in enumerate(wanted)),
        key=lambda entry: (-entry[0], entry[1], entry[2]),
    )
    match: dict[str, str] = {}
    for overlap, i, j in overlaps:
        if overlap >= _SAME_STEP and planned[i].id not in match and wanted[j].id not in match.values():
            match[planned[i].id] = wanted[j].id
    return match


def _overlap(ours: Subtask, theirs: Subtask) -> float:
    """Intersection over union of the spans; of subtasks without a span, whether the words are equal."""
    if ours.span is None or theirs.span is None:
        return float(ours.instruction == theirs.instruction)
    shared = min(ours.span[1], theirs.span[1]) - max(ours.span[0], theirs.span[0])
    union = max(ours.span[1], theirs.span[1]) - min(ours.span[0], theirs.span[0])
    return max(0, shared) / union if union else 0.0


def _equal(plan: Workflow, reference: Workflow, match: dict[str, str]) -> bool:
    if len(plan) != len(reference) or len(match) != len(reference):
        return False
    for ours in plan.subtasks:
        theirs = reference[match[ours.id]]
        if (ours.instruction, ours.task_type) != (theirs.instruction, theirs.task_type):
            return False
        if tuple(match[parent] for parent in ours.depends_on) != theirs.depends_on:
            return False
    return True
