"""Acyclicity has known values and gradients, is zero exactly on DAGs, and decoding always gives a DAG."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from orchestai.planner.slots.decisions import acyclicity, likeliest_edges
from orchestai.planner.slots.decoding_rules import is_acyclic, repair


def penalty(graph: Tensor, steps: int | None = None) -> Tensor:
    mask = torch.arange(len(graph)) < (len(graph) if steps is None else steps)
    return acyclicity(graph[None], mask[None])[0]


def edges(n: int, *pairs: tuple[int, int], p: float = 1.0) -> Tensor:
    graph = torch.zeros(n, n, dtype=torch.float64)
    for i, j in pairs:
        graph[i, j] = p
    return graph


graphs = st.integers(1, 8).flatmap(lambda n: hnp.arrays(float, (n, n), elements=st.floats(0, 1))).map(torch.tensor)
adjacencies = st.integers(1, 8).flatmap(lambda n: hnp.arrays(bool, (n, n))).map(torch.tensor)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (edges(3), 0.0),
        (edges(4, (0, 1), (0, 2), (1, 3), (2, 3)), 0.0),
        (edges(3, (1, 1), p=0.25), 0.25),
        (edges(2, (0, 1), (1, 0), p=0.5), 2 * math.log(1 + 0.25 / 2)),  # tr(Q^2) / 2 = 0.25
        (edges(3, (0, 1), (1, 2), (2, 0)), 3 * math.log(1 + 1 / 3)),  # tr(Q^3) / 3 = 1
    ],
)
def test_known_values(graph, expected):
    assert penalty(graph).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("length", [2, 5, 10])
def test_a_certain_cycle_of_any_length_weighs_about_as_much(length):
    cycle = edges(10, *((i, (i + 1) % length) for i in range(length))).requires_grad_()
    value = penalty(cycle)
    value.backward()
    assert 0.9 < value < 2.1
    assert cycle.grad[0, 1] > 0.8


def test_gradient_equals_finite_differences():
    graph = torch.rand(2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    assert torch.autograd.gradcheck(lambda p: acyclicity(p, mask), (graph,))


@given(graphs)
def test_zero_exactly_on_dags(graph):
    graph = torch.where(graph < 0.5, 0.0, graph)
    acyclic = nx.is_directed_acyclic_graph(nx.from_numpy_array(graph.numpy(), create_using=nx.DiGraph))
    assert (penalty(graph) == 0) == acyclic
    assert penalty(graph) >= 0


@given(adjacencies)
def test_acyclic_agrees_with_networkx(adjacency):
    graph = nx.from_numpy_array(adjacency.numpy(), create_using=nx.DiGraph)
    assert is_acyclic(adjacency.numpy()) == nx.is_directed_acyclic_graph(graph)


@given(graphs)
def test_repair_gives_a_dag_to_which_no_wanted_edge_can_be_added(probabilities):
    odds = probabilities.numpy()
    decoded = repair(odds > 0.5, odds)
    assert is_acyclic(decoded)
    assert not (decoded & (odds <= 0.5)).any()
    for i, j in np.argwhere((odds > 0.5) & ~decoded):
        with_edge = decoded.copy()
        with_edge[i, j] = True
        assert not is_acyclic(with_edge)


@pytest.mark.parametrize("seed", range(2))
def test_the_likeliest_edges_are_those_of_the_best_of_all_sets(seed):
    """By brute force over all sets of parents of each step; a step beyond the plan's length has none and is none."""
    generator = torch.Generator().manual_seed(seed)
    n, lengths = 4, (4, 3)
    edges = 2 * torch.randn(len(lengths), n, n, generator=generator)
    counts = 2 * torch.randn(len(lengths), n, n, generator=generator)
    steps = torch.arange(n) < torch.tensor(lengths)[:, None]
    found = likeliest_edges(edges, counts, steps)
    for row, length in enumerate(lengths):
        assert not found[row, length:].any()
        for child in range(length):
            others = [i for i in range(length) if i != child]
            sets = [chosen for size in range(length) for chosen in itertools.combinations(others, size)]

            def worth(chosen, row=row, child=child):
                return edges[row, list(chosen), child].sum() + counts[row, child].log_softmax(-1)[len(chosen)]

            assert found[row, :, child].nonzero().flatten().tolist() == list(max(sets, key=worth))
