"""Decisions of many plans as tensors: their slots, how they are drawn, and which edges are likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from orchestai.types import DecisionKind, Decisions, SampleSpec

IMPOSSIBLE = -1e9
"""Logit of a choice that cannot be made; finite, so that entropies and gradients stay so."""

STRUCTURE: frozenset[DecisionKind] = frozenset({"stop", "span", "edge"})
"""The kinds of decisions that make up steps and edges; the others choose types and workers for them."""

_STEP: tuple[DecisionKind, ...] = ("stop", "span", "span", "type", "worker")
_FALLBACK: tuple[DecisionKind, ...] = ("fallback",)


@dataclass(frozen=True)
class SlotLayout:
    """Places of decisions in a row of slots; see `Scores`."""

    max_subtasks: int
    max_fallbacks: int

    @property
    def step_kinds(self) -> tuple[DecisionKind, ...]:
        """Kind of each decision of one step: stop, start, end, type, worker, fallbacks."""
        return _STEP + _FALLBACK * self.max_fallbacks

    @property
    def kinds(self) -> tuple[DecisionKind, ...]:
        """Kind of each slot's decision."""
        edge: DecisionKind = "edge"
        return self.step_kinds * self.max_subtasks + (edge,) * self.max_subtasks**2

    @property
    def slots(self) -> int:
        return self.max_subtasks * (len(self.step_kinds) + self.max_subtasks)

    @property
    def step(self) -> Tensor:
        """(slots,) the step that each slot decides about; -1 for pairs."""
        steps = torch.arange(self.max_subtasks).repeat_interleave(len(self.step_kinds))
        return F.pad(steps, (0, self.max_subtasks**2), value=-1)

    def slot(self, step: int, decision: int) -> int:
        """Place of a step's decision, numbered as in `step_kinds`."""
        return step * len(self.step_kinds) + decision

    def place(self, steps: Tensor, pairs: Tensor) -> Tensor:
        """(rows, n, decisions of a step) and (rows, n, n), n <= max_subtasks, as (rows, slots) with zeros between."""
        missing = self.max_subtasks - steps.shape[1]
        steps = F.pad(steps, (0, 0, 0, missing))
        pairs = F.pad(pairs, (0, self.max_subtasks - pairs.shape[2], 0, self.max_subtasks - pairs.shape[1]))
        return torch.cat([steps.flatten(1), pairs.flatten(1)], 1)

    def pairs(self, row: Tensor) -> Tensor:
        """The part of (..., slots) that holds pairs, as (..., max_subtasks, max_subtasks)."""
        start = self.max_subtasks * len(self.step_kinds)
        return row[..., start:].unflatten(-1, (self.max_subtasks, self.max_subtasks))


@dataclass(frozen=True, eq=False)
class DecisionBatch:
    """`Decisions` of b plans, padded with zeros to the longest, n.

    Attributes:
        lengths: (b,); spans: (b, n, 2); types: (b, n), where the number of types means not known; workers: (b, n);
        fallbacks: (b, n, F); edges: (b, n, n) bool.
    """

    lengths: Tensor
    spans: Tensor
    types: Tensor
    workers: Tensor
    fallbacks: Tensor
    edges: Tensor

    @property
    def steps(self) -> Tensor:
        """(b, n) bool: the steps that exist."""
        return torch.arange(self.spans.shape[1], device=self.lengths.device) < self.lengths[:, None]

    @classmethod
    def collate(cls, rows: Sequence[Decisions], device: torch.device) -> DecisionBatch:
        longest = max(row.length for row in rows)

        def stack(tensors: list[Tensor], dimensions: int) -> Tensor:
            padded = [
                F.pad(t, (*[0, 0] * (t.dim() - dimensions), *[0, longest - len(t)] * dimensions)) for t in tensors
            ]
            return torch.stack(padded).to(device)

        return cls(
            lengths=torch.tensor([row.length for row in rows], device=device),
            spans=stack([row.spans for row in rows], 1),
            types=stack([row.types for row in rows], 1),
            workers=stack([row.workers for row in rows], 1),
            fallbacks=stack([row.fallbacks for row in rows], 1),
            edges=stack([row.edges for row in rows], 2),
        )

    @classmethod
    def without_workers(cls, lengths: Tensor, spans: Tensor, edges: Tensor, max_fallbacks: int) -> DecisionBatch:
        """Steps and edges for which nothing is chosen: every index is 0."""
        none = torch.zeros_like(spans[..., 0])
        return cls(lengths, spans, none, none, none[..., None].expand(-1, -1, max_fallbacks), edges)

    def rows(self) -> list[Decisions]:
        """One `Decisions` per plan, on the CPU, without padding."""
        spans, types, workers, fallbacks, edges = (
            tensor.cpu() for tensor in (self.spans, self.types, self.workers, self.fallbacks, self.edges)
        )
        return [
            Decisions(
                length=n,
                spans=spans[i, :n].clone(),
                types=types[i, :n].clone(),
                workers=workers[i, :n].clone(),
                fallbacks=fallbacks[i, :n].clone(),
                edges=edges[i, :n, :n].clone(),
            )
            for i, n in enumerate(self.lengths.tolist())
        ]


def explored(
    decisions: DecisionBatch, free: Tensor | None, pool_size: int, explore: frozenset[DecisionKind], layout: SlotLayout
) -> Tensor:
    """(b, slots) bool: the decisions of the kinds `explore` that exist and had an alternative.

    Args:
        free: (b, n + 1, t, 2) bool; the tokens at which each step, and one more, could begin, and end. None where
            `explore` has neither stops nor spans.
        pool_size: W, the number of workers.
    """
    exists = decisions.steps
    n = exists.shape[1]
    exists_padded = F.pad(exists, (0, layout.max_subtasks - n))
    if free is None:
        stops, starts, ends = torch.zeros_like(exists_padded), torch.zeros_like(exists), torch.zeros_like(exists)
    else:
        step = torch.arange(layout.max_subtasks, device=exists.device)
        begin, end = free.unbind(-1)
        possible = F.pad(begin.any(-1), (0, layout.max_subtasks))[:, : layout.max_subtasks]
        stops = (step > 0) & (step <= decisions.lengths[:, None]) & possible
        starts = exists & (begin[:, :n].sum(-1) > 1)
        behind = torch.arange(end.shape[-1], device=end.device) >= decisions.spans[..., :1]
        ends = exists & ((end[:, :n] & behind).sum(-1) > 1)
    choices = [starts, ends, exists, exists & (pool_size > 1)]
    going = exists
    for f in range(layout.max_fallbacks):
        choices.append(going & (pool_size > 1 + f))
        going = going & (decisions.fallbacks[..., f] < pool_size)
    padded = [F.pad(choice, (0, layout.max_subtasks - n)) for choice in choices]
    wanted = torch.tensor([kind in explore for kind in layout.step_kinds], device=exists.device)
    steps = torch.stack([stops, *padded], -1) & wanted
    pairs = exists_padded[:, :, None] & exists_padded[:, None, :] & ("edge" in explore)
    return layout.place(steps, pairs)


class Chooser:
    """Takes decisions greedily or by chance, and keeps the log-probabilities of those taken by chance.

    Every slot of a row has its own random number, drawn from the row's seed before anything is decided. So a sample
    depends on nothing but the seed and the probabilities.
    """

    def __init__(self, sample: SampleSpec | None, rows: int, layout: SlotLayout, device: torch.device) -> None:
        self._sample = sample
        self._layout = layout
        self.logp = torch.zeros(rows, layout.slots, device=device)
        if sample is not None:
            if len(sample.seeds) != rows:
                raise ValueError(f"{rows} tasks, but {len(sample.seeds)} seeds")
            draws = [torch.rand(layout.slots, generator=torch.Generator().manual_seed(seed)) for seed in sample.seeds]
            self._uniform = torch.stack(draws).to(device)

    def choose(self, kind: DecisionKind, slot: int, logits: Tensor) -> Tensor:
        """(b,) indices chosen from (b, k) logits."""
        if self._sample is None or kind not in self._sample.explore:
            return logits.argmax(-1)
        logp = F.log_softmax(logits / self._sample.temperature, -1)
        cumulative = logp.double().exp().cumsum(-1)
        chosen = (cumulative <= self._uniform[:, slot, None] * cumulative[:, -1:]).sum(-1)
        self.logp[:, slot] = logp.gather(-1, chosen[:, None])[:, 0]
        return chosen

    def flip(self, kind: DecisionKind, slot: int, logit: Tensor) -> Tensor:
        """(b,) bool chosen with the odds of (b,) logits."""
        return self.choose(kind, slot, torch.stack([torch.zeros_like(logit), logit], -1)).bool()

    def flip_pairs(self, logits: Tensor, likeliest: Tensor) -> Tensor:
        """(b, n, n) bool chosen with the odds of (b, n, n) edge logits; `likeliest` where edges are not explored."""
        if self._sample is None or "edge" not in self._sample.explore:
            return likeliest
        n = logits.shape[1]
        scaled = logits / self._sample.temperature
        chosen = self._layout.pairs(self._uniform)[:, :n, :n] < scaled.sigmoid()
        self._layout.pairs(self.logp)[:, :n, :n] = F.logsigmoid(torch.where(chosen, scaled, -scaled))
        return chosen


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
