"""How close a planned workflow comes to a reference: steps matched one to one, then edges, order and shape.

A graph's nodes are 0 ... n - 1 and its edges ordered pairs of them. `match` maps planned nodes to reference nodes, each
at most once. Every F1 score is 1 where there is nothing to find and nothing was planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from orchestai.workflow import Subtask, Workflow

Edges: TypeAlias = Set[tuple[int, int]]
Match: TypeAlias = Mapping[int, int]
HALF = 0.5
"""Intersection over union of the words of steps that count as the same."""


def match_greedily(similarity: NDArray[np.floating], threshold: float) -> dict[int, int]:
    """(planned, reference) similarities give the match: the most similar pair first, none below `threshold`."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    for flat in np.argsort(-similarity, axis=None, kind="stable"):
        row, column = (int(i) for i in np.unravel_index(flat, similarity.shape))
        if similarity[row, column] < threshold:
            break
        if row not in found and column not in taken:
            found[row] = column
            taken.add(column)
    return found


def f1(both: int, planned: int, wanted: int) -> float:
    """Harmonic mean of both / planned and both / wanted."""
    return 2 * both / (planned + wanted) if planned + wanted else 1.0


@dataclass
class F1Count:
    """What was planned, what was wanted and what is in both, over many plans."""

    both: int = 0
    planned: int = 0
    wanted: int = 0

    def add(self, both: int, planned: int, wanted: int) -> None:
        self.both += both
        self.planned += planned
        self.wanted += wanted

    @property
    def f1(self) -> float:
        return f1(self.both, self.planned, self.wanted)


def edges_of(workflow: Workflow) -> frozenset[tuple[int, int]]:
    """From the place of the parent to the place of the child."""
    return frozenset((p, child) for child, parents in enumerate(workflow.dependencies()) for p in parents)


def edge_f1(planned: Edges, wanted: Edges, match: Match) -> float:
    """Edges whose ends are matched to those of a reference edge; an edge at an unmatched node is wrong."""
    return f1(shared_edges(planned, wanted, match), len(planned), len(wanted))


def shared_edges(planned: Edges, wanted: Edges, match: Match) -> int:
    """Number of planned edges whose ends are matched to those of a reference edge."""
    return sum((match.get(a, -1), match.get(b, -1)) in wanted for a, b in planned)


def chain_f1(order: list[int], wanted: Edges, match: Match, nodes: int) -> float:
    """WorFEval's chain score (Qiao et al. 2025, arXiv 2410.07869, section 2.4).

    Its l is the longest increasing subsequence of the planned order in a topological order of the reference, at best
    over all of these; precision is l / planned nodes, recall l / reference nodes. A subsequence fits a topological
    order where no later node must come before an earlier one. Pairs that break this are a partial order, so l is the
    size of its largest antichain: nodes less the largest matching of comparable pairs (Dilworth), without enumerating
    orders, of which the authors' program takes the first 20.

    Args:
        order: the planned nodes in a topological order.
        nodes: of the reference.
    """
    matched = [match[node] for node in order if node in match]
    paths: nx.DiGraph = nx.DiGraph(list(wanted))
    must = {(a, b) for a in paths for b in nx.descendants(paths, a)}
    graph: nx.Graph = nx.Graph()
    earlier = [("first", i) for i in range(len(matched))]
    graph.add_nodes_from(earlier)
    graph.add_edges_from(
        (("first", i), ("second", j))
        for i in range(len(matched))
        for j in range(i + 1, len(matched))
        if (matched[j], matched[i]) in must
    )
    pairs = nx.bipartite.maximum_matching(graph, top_nodes=earlier)
    longest = len(matched) - len(pairs) // 2
    return f1(longest, len(order), nodes)


def graph_f1(planned: Edges, wanted: Edges, match: Match, planned_nodes: int, nodes: int) -> float:
    """WorFEval's graph score: its k is the number of nodes of the largest common induced subgraph under `match`.

    It is the largest set of matched nodes between any two of which both graphs have the same edges, or none.
    """
    agree: nx.Graph = nx.Graph()
    agree.add_nodes_from(match)
    listed = list(match)
    for i, a in enumerate(listed):
        for b in listed[i + 1 :]:
            same = all(((x, y) in planned) == ((match[x], match[y]) in wanted) for x, y in ((a, b), (b, a)))
            if same:
                agree.add_edge(a, b)
    largest, _ = nx.max_weight_clique(agree, weight=None)
    return f1(len(largest), planned_nodes, nodes)


def is_exact(planned: Workflow, reference: Workflow, match: Match) -> bool:
    """Whether every step is matched to one of the same words, type and parents in argument order, and none is left.

    Words or a type that the reference leaves open are never wrong; workers play no part, see `same_workers`.
    """
    if not len(match) == len(planned) == len(reference):
        return False
    parents, wanted = planned.dependencies(), reference.dependencies()
    pairs = ((i, planned.subtasks[i], match[i], reference.subtasks[match[i]]) for i in range(len(planned)))
    return all(
        theirs.instruction in ("", ours.instruction)
        and theirs.task_type in ("", ours.task_type)
        and [match[parent] for parent in parents[i]] == wanted[j]
        for i, ours, j, theirs in pairs
    )


def is_right(planned: Workflow, reference: Workflow, share: float = HALF) -> bool:
    """Whether every step has that share of its words in common with one of the reference, and the edges are its.

    What is in common is measured as intersection over union; see `match_spans`.
    """
    match = match_spans(planned, reference, share)
    if not len(match) == len(planned) == len(reference):
        return False
    return {(match[a], match[b]) for a, b in edges_of(planned)} == edges_of(reference)


def same_workers(planned: Workflow, reference: Workflow, match: Match) -> bool:
    """Whether every matched step asks the same worker first as in the reference, unless that leaves it open."""
    return all(reference.subtasks[j].worker in ("", planned.subtasks[i].worker) for i, j in match.items())


def match_words(planned: Workflow, reference: Workflow) -> dict[int, int]:
    """Steps of the same words, as they are listed."""
    pairs = [[float(a.instruction == b.instruction) for b in reference.subtasks] for a in planned.subtasks]
    return match_greedily(np.array(pairs), 1.0)


def match_spans(planned: Workflow, reference: Workflow, share: float = HALF) -> dict[int, int]:
    """Steps whose spans in the instruction overlap most, as intersection over union, and by `share` at least.

    Steps without a span are the same where their words are.
    """
    overlap = [[_overlap(a, b) for b in reference.subtasks] for a in planned.subtasks]
    return match_greedily(np.array(overlap), share)


def _overlap(ours: Subtask, theirs: Subtask) -> float:
    if ours.span is None or theirs.span is None:
        return float(ours.instruction == theirs.instruction)
    shared = min(ours.span[1], theirs.span[1]) - max(ours.span[0], theirs.span[0])
    union = max(ours.span[1], theirs.span[1]) - min(ours.span[0], theirs.span[0])
    return max(0, shared) / union if union else 0.0


@dataclass
class Closeness:
    """Counts over plans beside their references, each plan with the match of its steps."""

    steps: F1Count = field(default_factory=F1Count)
    edges: F1Count = field(default_factory=F1Count)

    def add(self, planned: Workflow | None, reference: Workflow, match: Match) -> None:
        """Count a plan; one that is missing finds nothing."""
        drawn, wanted = edges_of(planned) if planned else frozenset(), edges_of(reference)
        self.steps.add(len(match), len(planned) if planned else 0, len(reference))
        self.edges.add(shared_edges(drawn, wanted, match), len(drawn), len(wanted))

    def to_dict(self) -> dict[str, float]:
        return {"step_f1": self.steps.f1, "edge_f1": self.edges.f1}


@dataclass(frozen=True)
class Decomposition:
    """Shares in [0, 1] over `n` tasks that have a reference and a plan or none.

    Attributes:
        exact: plans for which `is_exact` holds, in whatever order they list their steps.
        step_f1, edge_f1: of steps matched by their spans, and of the edges between them.
    """

    n: int
    exact: float
    step_f1: float
    edge_f1: float


def compare(plans: Sequence[Workflow | None], references: Sequence[Workflow]) -> Decomposition | None:
    """Compare plan by plan; a missing plan finds nothing. None where there is nothing to compare."""
    if not references:
        return None
    exact, counts = 0, Closeness()
    for plan, reference in zip(plans, references, strict=True):
        match = match_spans(plan, reference) if plan is not None else {}
        exact += plan is not None and is_exact(plan, reference, match)
        counts.add(plan, reference, match)
    return Decomposition(len(references), exact / len(references), **counts.to_dict())
