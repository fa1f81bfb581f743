"""The heads of the slot decoder: where a step's words are, who does it, and which steps feed it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from orchestai.planner.decisions import IMPOSSIBLE
from orchestai.planner.layers import DistanceBias, masked_softmax


class SpanPointer(nn.Module):
    """Points at the first token of a step's words, then, knowing it, at the last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.start_query = nn.Linear(width, width)
        self.start_key = nn.Linear(width, width)
        self.start_distance = DistanceBias(1)
        self.end_query = mlp(2 * width, width, width)
        self.end_key = nn.Linear(width, width)
        self.end_distance = DistanceBias(1)

    def start(self, state: Tensor, tokens: Tensor, mask: Tensor, distance: Tensor) -> Tensor:
        """(b, n, t) logits from (b, n, d) states; `distance` (b, n, t) is that from the previous step's last token."""
        logits = _match(self.start_query(state), self.start_key(tokens)) + self.start_distance(distance)[..., 0]
        return logits.masked_fill(~mask[:, None], IMPOSSIBLE)

    def end(self, state: Tensor, tokens: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """(b, n, t) logits given (b, n) starts; nothing ends before it starts."""
        at_start = tokens.gather(1, start[..., None].expand(-1, -1, tokens.shape[-1]))
        distance = torch.arange(tokens.shape[1], device=tokens.device) - start[..., None]
        logits = _match(self.end_query(torch.cat([state, at_start], -1)), self.end_key(tokens))
        logits = logits + self.end_distance(distance)[..., 0]
        return logits.masked_fill(~mask[:, None] | (distance < 0), IMPOSSIBLE)


class WorkerMatcher(nn.Module):
    """Chooses workers by matching what a step needs with what their cards say.

    Args:
        card_width: width of a card's features.
    """

    def __init__(self, card_width: int, width: int, fallbacks: int) -> None:
        super().__init__()
        self.card = mlp(card_width, width, width)
        self.none = nn.Parameter(torch.randn(width))
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.next_query = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(fallbacks))

    def keys(self, cards: Tensor) -> Tensor:
        """(W, card_width) features of the pool give (W + 1, d); the last key is that of "none"."""
        return self.norm(torch.cat([self.card(cards), self.none[None]]))

    def worker(self, need: Tensor, keys: Tensor) -> Tensor:
        """(b, n, W) logits from (b, n, d) needs."""
        return _match(self.query(need), keys[:-1])

    def fallback(self, need: Tensor, keys: Tensor, taken: Tensor) -> Tensor:
        """(b, n, W + 1) logits of the next fallback, given (b, n, k) workers taken before, the first one included.

        No worker is taken twice, and after "none" comes none.
        """
        ask = self.next_query[taken.shape[-1] - 1](torch.cat([need, keys[taken].mean(-2)], -1))
        none = len(keys) - 1
        choices = torch.arange(len(keys), device=keys.device)
        used = (taken[..., None] == choices).any(-2) & (choices != none)
        ended = (taken[..., -1] == none)[..., None] & (choices != none)
        return _match(self.query(ask), keys).masked_fill(used | ended, IMPOSSIBLE)


class EdgeScorer(nn.Module):
    """Says for each ordered pair of steps whether the second takes the first one's output.

    Instructions refer to earlier results in the words around a step ("with the words and the vowel count, ..."). So
    each pair looks, among the tokens near the second step, for those that fit the first.
    """

    def __init__(self, width: int, max_subtasks: int) -> None:
        super().__init__()
        self.max_subtasks = max_subtasks
        self.word_key = nn.Linear(width, width)
        self.word_value = nn.Linear(width, width)
        self.word_query = nn.Linear(2 * width, width)
        self.parent = nn.Linear(width, width)
        self.child = nn.Linear(width, width)
        self.distance = nn.Embedding(2 * max_subtasks - 1, width)
        self.out = nn.Sequential(nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, steps: Tensor, content: Tensor, tokens: Tensor, near: Tensor) -> Tensor:
        """(b, n, n) logits.

        Args:
            steps: (b, n, d) what was decided for each step.
            content: (b, n, d) its words.
            tokens: (b, t, d) the instruction's.
            near: (b, n, t) bool; the tokens around each step's words that may say what it takes.
        """
        n = steps.shape[1]
        fit = _match(self.word_query(torch.cat([steps, content], -1)), self.word_key(tokens))
        attention = masked_softmax(fit[:, :, None], near[:, None])
        found = attention @ self.word_value(tokens)[:, None]
        strength = (attention * fit[:, :, None]).sum(-1)
        index = torch.arange(n, device=steps.device)
        distance = self.distance(index - index[:, None] + self.max_subtasks - 1)
        pairs = self.parent(steps)[:, :, None] + self.child(steps)[:, None] + found + distance
        return self.out(pairs)[..., 0] + strength


def _match(query: Tensor, key: Tensor) -> Tensor:
    """Scaled dot products of (..., n, d) and (..., k, d) as (..., n, k)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def mlp(width_in: int, hidden: int, width_out: int) -> nn.Module:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.GELU(), nn.Linear(hidden, width_out))
