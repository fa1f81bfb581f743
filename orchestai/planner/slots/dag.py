"""Edges of plans: the likeliest ones, and a differentiable penalty for cycles in training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_OF_FLOATS = 20
"""Steps up to which a dense graph has no more walks, (n - 1)^n, than float32 can count."""


def likeliest_edges(edge_logits: Tensor, count_logits: Tensor, steps: Tensor) -> Tensor:
    """For each step its most probable set of parents, where p(set) is proportional to p(size) times the edges' odds.

    Args:
        edge_logits: (rows, n, n), from row to column.
        count_logits: (rows, n, m) of having 0, 1, ..., m - 1 parents; m >= n.
        steps: (rows, n) bool; the steps that exist.

    Returns:
        (rows, n, n) bool; no step is its own parent. There may be cycles.
    """
    n = edge_logits.shape[1]
    pairs = steps[:, :, None] & steps[:, None] & ~torch.eye(n, dtype=torch.bool, device=steps.device)
    odds, order = edge_logits.masked_fill(~pairs, -1e9).sort(dim=1, descending=True)
    of_the_best = F.pad(odds.cumsum(1), (0, 0, 1, 0))[:, :n]
    count = (of_the_best + count_logits.log_softmax(-1)[..., :n].transpose(1, 2)).argmax(1)
    return (order.argsort(1) < count[:, None]) & pairs


def best_expected_edges(edge_logits: Tensor, steps: Tensor) -> Tensor:
    """The edges with the highest expected F1 score, if each is there by itself with its own probability.

    They are the k most probable ones for some k. Their expected score is close to 2 sum_k(p) / (k + sum(p)); that of no
    edge is the chance that there is none.

    Args:
        edge_logits: (rows, n, n), from row to column.
        steps: (rows, n) bool; the steps that exist.

    Returns:
        (rows, n, n) bool; no step is its own parent. There may be cycles.
    """
    n = edge_logits.shape[1]
    pairs = steps[:, :, None] & steps[:, None] & ~torch.eye(n, dtype=torch.bool, device=steps.device)
    probability = (edge_logits.sigmoid() * pairs).flatten(1)
    best, order = probability.sort(dim=1, descending=True)
    size = torch.arange(1, n * n + 1, device=steps.device)
    score = 2 * best.cumsum(1) / (size + best.sum(1, keepdim=True))
    nothing = (1 - best).prod(1, keepdim=True)
    count = torch.cat([nothing, score], 1).argmax(1)
    return (order.argsort(1) < count[:, None]).view_as(pairs) & pairs


def acyclicity(probabilities: Tensor, mask: Tensor) -> Tensor:
    """How far soft graphs are from being acyclic; 0 exactly where the graph has no cycle, positive elsewhere.

    With P the edge probabilities of a row's n steps and Q the same without its diagonal, this is

        tr(P) + n log(1 + sum_{k=2..n} tr(Q^k) / k / n)

    tr(P) is the mass of self-loops. tr(Q^k) / k is the mass of closed walks of k edges, wherever they begin; a cycle
    has at most n. So a certain cycle adds about 1 of whatever length, and one of two steps, which is walked again, 2.
    The sum is -log det(I - Q), as in DAGMA (Bello et al. 2022), cut off at k = n: it vanishes exactly on a DAG and is
    finite for all probabilities, where the determinant would need the spectral radius to stay below 1. NOTEARS (Zheng
    et al. 2018) has 1/k! in place of 1/k, which weighs a cycle of eight steps at 2e-4. It is taken on P, not on W∘W,
    whose gradient vanishes at 0 even for self-loops. The logarithm bounds the gradient of a dense graph.

    Args:
        probabilities: (rows, n, n) in [0, 1]; entry [i, j] is that of an edge from step i to step j.
        mask: (rows, n) bool; the steps that exist. Others are left out, and do not change the value.

    Returns:
        (rows,) the penalty, differentiable.
    """
    steps = mask.sum(-1)
    graph = probabilities * (mask[:, :, None] & mask[:, None, :])
    self_loops = graph.diagonal(dim1=-2, dim2=-1).sum(-1)
    graph = graph - torch.diag_embed(graph.diagonal(dim1=-2, dim2=-1))
    graph = graph.double() if graph.shape[-1] > _OF_FLOATS else graph
    walks, cycles = graph, torch.zeros_like(self_loops, dtype=graph.dtype)
    for k in range(2, graph.shape[-1] + 1):
        walks = walks @ graph
        cycles = cycles + walks.diagonal(dim1=-2, dim2=-1).sum(-1) / k * (k <= steps)
    return self_loops + (steps * torch.log1p(cycles / steps.clamp(min=1))).to(self_loops)
