"""The slot decoder: step by step, whether to go on, which words, which type, which workers; then all edges at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.config import PlannerConfig
from orchestai.planner.decisions import IMPOSSIBLE, Chooser, DecisionBatch, SlotLayout
from orchestai.planner.heads import EdgeScorer, SpanPointer, WorkerMatcher, mlp
from orchestai.planner.layers import DecoderLayer, DistanceBias, SpanPool
from orchestai.planner.reader import Memory


@dataclass(frozen=True, eq=False)
class Logits:
    """Logits of every decision of b plans of n steps, each given the decisions before it.

    Attributes:
        go_on: (b, m) that there is a step number 0, 1, ...; m = min(n + 1, max_subtasks).
        start, end: (b, n, t) over tokens.
        types: (b, n, T).
        workers: (b, n, W).
        fallbacks: (b, n, F, W + 1).
        edges: (b, n, n) from row to column.
        steps: (b, n, d) what was decided for each step, as a vector.
        state_values: (b, m, 4) expected return before stop, start, end and type.
        need_values: (b, n, 1 + F) expected return before the worker and each fallback.
        plan_value: (b,) expected return before the edges.
    """

    go_on: Tensor
    start: Tensor
    end: Tensor
    types: Tensor
    workers: Tensor
    fallbacks: Tensor
    edges: Tensor
    steps: Tensor
    state_values: Tensor
    need_values: Tensor
    plan_value: Tensor


class SlotDecoder(nn.Module):
    """Decodes plans from a `Memory`, along given decisions or by a `Chooser`."""

    def __init__(self, card_width: int, config: PlannerConfig) -> None:
        super().__init__()
        d, types, fallbacks = config.d_model, len(config.task_types), config.max_fallbacks
        self.layout = SlotLayout(config.max_subtasks, fallbacks)
        self.first = nn.Parameter(torch.randn(d) * 0.02)
        self.layers = nn.ModuleList(DecoderLayer(d, config.num_heads, config.dropout) for _ in range(config.num_layers))
        self.distance = DistanceBias(config.num_heads)
        self.norm = nn.LayerNorm(d)
        self.go_on = nn.Linear(d, 1)
        self.pointer = SpanPointer(d)
        self.pool = SpanPool(d, config.num_heads)
        self.kind = mlp(d, d, types)
        self.type_embedding = nn.Embedding(types + 1, d)
        self.need = mlp(2 * d, d, d)
        self.matcher = WorkerMatcher(card_width, d, fallbacks)
        self.chosen = mlp(3 * d, d, d)
        self.step = nn.Sequential(mlp(2 * d, d, d), nn.LayerNorm(d))
        self.edges = EdgeScorer(d, config.num_heads, config.max_subtasks)
        self.state_value = nn.Linear(d, 4)
        self.need_value = nn.Linear(d, 1 + fallbacks)
        self.plan_value = nn.Linear(d, 1)
        for value in (self.state_value, self.need_value, self.plan_value):
            nn.init.zeros_(value.weight)
            nn.init.zeros_(value.bias)

    def forward(self, memory: Memory, cards: Tensor, given: DecisionBatch) -> Logits:
        """Logits along given decisions.

        Args:
            cards: (W, card_width) features of the pool.
        """
        n = given.spans.shape[1]
        start, end = given.spans.unbind(-1)
        keys = self.matcher.keys(cards)
        content = self._content(start, end, memory)
        chosen = self._chosen(content, given.types, keys[given.workers])
        all_states = self._states(chosen, end, memory)[:, : self.layout.max_subtasks]
        states = all_states[:, :n]
        need = self._need(content, given.types)
        taken = torch.cat([given.workers[..., None], given.fallbacks], -1)
        fallbacks = [self.matcher.fallback(need, keys, taken[..., : f + 1]) for f in range(self.layout.max_fallbacks)]
        steps = self.step(torch.cat([states, chosen], -1))
        exists = given.steps[..., None]
        before = _before_spans(given.spans, given.steps, memory)
        return Logits(
            go_on=self.go_on(all_states)[..., 0],
            start=self._start(states, _previous(end)[:, :n], memory),
            end=self.pointer.end(states, memory.tokens, memory.mask, start),
            types=self.kind(content),
            workers=self.matcher.worker(need, keys),
            fallbacks=torch.stack(fallbacks, 2) if fallbacks else keys.new_zeros(*need.shape[:2], 0, len(keys)),
            edges=self.edges(steps, content, given.steps, memory.tokens, before),
            steps=steps,
            state_values=self.state_value(all_states),
            need_values=self.need_value(need),
            plan_value=self.plan_value((steps * exists).sum(1) / exists.sum(1))[..., 0],
        )

    def decode(
        self, memory: Memory, cards: Tensor, chooser: Chooser, *, stops: bool = True
    ) -> tuple[DecisionBatch, Tensor]:
        """Decide plans, and (b, n, n) edge logits beside them. Without `stops` every plan has `max_subtasks` steps."""
        rows, device, slot = len(memory.mask), memory.mask.device, self.layout.slot
        keys = self.matcher.keys(cards)
        going = torch.ones(rows, dtype=torch.bool, device=device)
        lengths = torch.zeros(rows, dtype=torch.long, device=device)
        spans = torch.zeros(rows, 0, 2, dtype=torch.long, device=device)
        chosen = memory.tokens.new_zeros(rows, 0, memory.tokens.shape[-1])
        columns: tuple[list[Tensor], ...] = ([], [], [], [])
        for i in range(self.layout.max_subtasks):
            state = self._states(chosen, spans[..., 1], memory)[:, -1:]
            if i and stops:
                going = going & chooser.flip("stop", slot(i, 0), self.go_on(state)[:, 0, 0])
                if not going.any():
                    break
            lengths = lengths + going
            logits = self._start(state, _previous(spans[..., 1])[:, -1:], memory)
            start = chooser.choose("span", slot(i, 1), logits[:, 0])[:, None]
            logits = self.pointer.end(state, memory.tokens, memory.mask, start)
            end = chooser.choose("span", slot(i, 2), logits[:, 0])[:, None]
            content = self._content(start, end, memory)
            logits = self.kind(content)
            kind = chooser.choose("type", slot(i, 3), logits[:, 0])[:, None]
            need = self._need(content, kind)
            logits = self.matcher.worker(need, keys)
            taken = chooser.choose("worker", slot(i, 4), logits[:, 0])[:, None, None]
            for f in range(self.layout.max_fallbacks):
                logits = self.matcher.fallback(need, keys, taken)
                taken = torch.cat([taken, chooser.choose("fallback", slot(i, 5 + f), logits[:, 0])[:, None, None]], -1)
            chosen = torch.cat([chosen, self._chosen(content, kind, keys[taken[..., 0]])], 1)
            spans = torch.cat([spans, torch.stack([start, end], -1)], 1)
            for column, value in zip(columns, (state, content, kind, taken), strict=True):
                column.append(value)
        states, contents, types, workers = (torch.cat(column, 1) for column in columns)
        exists = torch.arange(spans.shape[1], device=device) < lengths[:, None]
        before = _before_spans(spans, exists, memory)
        logits = self.edges(self.step(torch.cat([states, chosen], -1)), contents, exists, memory.tokens, before)
        edges = chooser.flip_pairs(logits)
        return DecisionBatch(lengths, spans, types, workers[..., 0], workers[..., 1:], edges), logits

    def _states(self, chosen: Tensor, ends: Tensor, memory: Memory) -> Tensor:
        """(b, k + 1, d) states before steps 0 .. k, given (b, k, d) what was chosen and (b, k) where its words end."""
        x = torch.cat([self.first.expand(len(chosen), 1, -1), chosen], 1)
        bias = self.distance(_distance(_previous(ends), memory)).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~memory.mask[:, None, None], IMPOSSIBLE)
        for layer in self.layers:
            x = layer(x, memory.tokens, bias)
        return self.norm(x)

    def _start(self, states: Tensor, previous: Tensor, memory: Memory) -> Tensor:
        return self.pointer.start(states, memory.tokens, memory.mask, _distance(previous, memory))

    def _content(self, start: Tensor, end: Tensor, memory: Memory) -> Tensor:
        return self.pool(memory.words, _between(start, end, memory))

    def _need(self, content: Tensor, types: Tensor) -> Tensor:
        return self.need(torch.cat([content, self.type_embedding(types)], -1))

    def _chosen(self, content: Tensor, types: Tensor, worker: Tensor) -> Tensor:
        return self.chosen(torch.cat([content, self.type_embedding(types), worker], -1))


def _positions(memory: Memory) -> Tensor:
    return torch.arange(memory.mask.shape[1], device=memory.mask.device)


def _previous(ends: Tensor) -> Tensor:
    """(b, k) last tokens of steps as (b, k + 1): for each step, the last token of the one before; -1 for the first."""
    return F.pad(ends, (1, 0), value=-1)


def _distance(origin: Tensor, memory: Memory) -> Tensor:
    """(b, n) tokens as (b, n, t) distances of every token from them."""
    return _positions(memory) - origin[..., None]


def _between(start: Tensor, end: Tensor, memory: Memory) -> Tensor:
    """(b, n, t) bool: the tokens from `start` to `end`, both inclusive."""
    at = _positions(memory)
    return (start[..., None] <= at) & (at <= end[..., None])


def _before_spans(spans: Tensor, exists: Tensor, memory: Memory) -> Tensor:
    """(b, n, t) bool: the tokens before each step's words and after those of the nearest step that ends before them."""
    start, end = spans.unbind(-1)
    earlier = (end[:, None] < start[:, :, None]) & exists[:, None]
    nearest = torch.where(earlier, end[:, None], -1).amax(-1)
    return _between(nearest + 1, start - 1, memory)
