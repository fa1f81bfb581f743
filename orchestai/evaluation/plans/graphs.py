"""How close a planned graph comes to a reference: nodes matched one to one, then edges, order and shape.

A graph's nodes are 0 ... n - 1 and its edges ordered pairs of them. `match` maps planned nodes to reference nodes, each
at most once. Every F1 score is 1 where there is nothing to find and nothing was planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import pairwise
from typing import TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Edges: TypeAlias = Set[tuple[int, int]]
Match: TypeAlias = Mapping[int, int]


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


def node_f1(match: Match, planned: int, wanted: int) -> float:
    return f1(len(match), planned, wanted)


def edge_f1(planned: Edges, wanted: Edges, match: Match) -> float:
    """Edges whose ends are matched to those of a reference edge; an edge at an unmatched node is wrong."""
    both = sum((match.get(a, -1), match.get(b, -1)) in wanted for a, b in planned)
    return f1(both, len(planned), len(wanted))


def closure(edges: Edges) -> set[tuple[int, int]]:
    """All pairs that a path joins: what comes before what."""
    graph: nx.DiGraph = nx.DiGraph(list(edges))
    return {(a, b) for a in graph for b in nx.descendants(graph, a)}


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
    must = closure(wanted)
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


def critical_path(edges: Edges, durations: list[float]) -> float:
    """The time that a graph takes where whatever may run at the same time does."""
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(len(durations)))
    graph.add_edges_from(edges)
    finish: dict[int, float] = {}
    for node in nx.topological_sort(graph):
        finish[node] = durations[node] + max((finish[parent] for parent in graph.predecessors(node)), default=0.0)
    return max(finish.values())


def is_chain(edges: Edges, nodes: int) -> bool:
    """Whether the nodes form one chain, in whatever order; a single node does."""
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges)
    ordered = list(nx.topological_sort(graph))
    return set(edges) == set(pairwise(ordered))
