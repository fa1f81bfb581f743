"""The type, worker and fallbacks of each step, given its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import PlannerConfig
from orchestai.lm.value_head import ValueHead
from orchestai.planner.slots.decisions import IMPOSSIBLE, Chooser, DecisionBatch, SlotLayout
from orchestai.planner.slots.decoder import Structure
from orchestai.planner.slots.layers import SpanPool, match, mlp, padded, present
from orchestai.planner.slots.text_encoder import TextEncoder
from orchestai.types import DecisionKind


@dataclass(frozen=True, eq=False)
class SelectionLogits:
    """Logits of the types and workers of b plans of n steps.

    Attributes:
        types: (b, n, T).
        workers: (b, n, W).
        fallbacks: (b, n, F, W + 1), given those before; the last one is that of no further worker.
        values: (b, n, 2 + F) expected return before the type, the worker and each fallback.
    """

    types: Tensor
    workers: Tensor
    fallbacks: Tensor
    values: Tensor


class WorkerSelector(nn.Module):
    """Selects types and workers for given steps.

    It reads each step's own words, apart from the instruction: these are what a worker is asked. So it shares no weight
    with what finds the steps, learns a pool while that stays as it is, and reads a step once wherever it stands.

    Args:
        encoder: reads the words.
        card_width: width of a card's features.
    """

    def __init__(self, encoder: TextEncoder, card_width: int, config: PlannerConfig) -> None:
        super().__init__()
        d, types = config.d_model, len(config.task_types)
        self.encoder = encoder
        self.layout = SlotLayout(config.max_subtasks, config.max_fallbacks)
        self.project = nn.Sequential(nn.LayerNorm(encoder.width), nn.Linear(encoder.width, d))
        self.pool = SpanPool(d, config.num_heads)
        self.kind = mlp(d, d, types)
        self.type_embedding = nn.Embedding(types + 1, d)
        self.need = mlp(2 * d, 2 * d, d)
        self.matcher = WorkerMatcher(card_width, d, config.max_fallbacks)
        self.value = ValueHead(d, 2 + config.max_fallbacks)

    def read(self, steps: Sequence[Sequence[str]], device: torch.device) -> Tensor:
        """(b, n, d) what the words of b plans' steps say, with zeros behind the last step of each.

        Raises:
            UnreadableTextError: a step has no word, or too many.
        """
        place = {words: i for i, words in enumerate(dict.fromkeys(words for row in steps for words in row))}
        texts = self.encoder.encode_each(list(place))
        tokens = self.project(padded([text.features for text in texts], device))
        mask = present(texts, device)
        pooled = self.pool(tokens, mask[:, None])[:, 0]
        rows = [pooled[[place[words] for words in row]] for row in steps]
        return pad_sequence(rows, batch_first=True)

    def forward(self, words: Tensor, cards: Tensor, given: DecisionBatch) -> SelectionLogits:
        """Logits along given decisions.

        Args:
            words: (b, n, d) what `read` gave.
            cards: (W, card_width) features of the pool.
        """
        need, keys = self.needs(words, given.types), self.matcher.keys(cards)
        taken = torch.cat([given.workers[..., None], given.fallbacks], -1)
        fallbacks = [self.matcher.fallback(need, keys, taken[..., : f + 1]) for f in range(self.layout.max_fallbacks)]
        return SelectionLogits(
            types=self.kind(words),
            workers=self.matcher.worker(need, keys),
            fallbacks=torch.stack(fallbacks, 2) if fallbacks else keys.new_zeros(*need.shape[:2], 0, len(keys)),
            values=self.value(need),
        )

    def select(
        self,
        words: Tensor,
        cards: Tensor,
        structure: Structure,
        chooser: Chooser,
    ) -> DecisionBatch:
        """Choose types and workers for the steps of `structure`.

        Args:
            words: (b, n, d) what `read` gave.
        """
        keys = self.matcher.keys(cards)
        steps, slot = range(words.shape[1]), self.layout.slot

        def choose(kind: DecisionKind, place: int, logits: Tensor) -> Tensor:
            return torch.stack([chooser.choose(kind, slot(i, place), logits[:, i]) for i in steps], 1)

        types = choose("type", 3, self.kind(words))
        need = self.needs(words, types)
        taken = choose("worker", 4, self.matcher.worker(need, keys))[..., None]
        for f in range(self.layout.max_fallbacks):
            following = choose("fallback", 5 + f, self.matcher.fallback(need, keys, taken))
            taken = torch.cat([taken, following[..., None]], -1)
        return DecisionBatch(
            structure.lengths,
            structure.spans,
            types,
            taken[..., 0],
            taken[..., 1:],
            structure.edges,
        )

    def needs(self, words: Tensor, types: Tensor) -> Tensor:
        """(b, n, d) what each step asks for."""
        return self.need(torch.cat([words, self.type_embedding(types)], -1))


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

    @torch.no_grad()
    def soften(self, temperature: float) -> None:
        """Divide all logits by a temperature; the likeliest workers stay so."""
        for weights in (self.query.weight, self.query.bias):
            weights /= temperature

    def keys(self, cards: Tensor) -> Tensor:
        """(W, card_width) features of the pool give (W + 1, d); the last key is that of "none"."""
        return self.norm(torch.cat([self.card(cards), self.none[None]]))

    def worker(self, need: Tensor, keys: Tensor) -> Tensor:
        """(b, n, W) logits from (b, n, d) needs."""
        return match(self.query(need), keys[:-1])

    def fallback(self, need: Tensor, keys: Tensor, taken: Tensor) -> Tensor:
        """(b, n, W + 1) logits of the next fallback, given (b, n, k) workers taken before, the first one included.

        No worker is taken twice, and after "none" comes none.
        """
        place, asked = taken.shape[-1] - 1, torch.cat([need, keys[taken].mean(-2)], -1)
        ask = self.next_query[place](asked)
        none = len(keys) - 1
        choices = torch.arange(len(keys), device=keys.device)
        used = (taken[..., None] == choices).any(-2) & (choices != none)
        ended = (taken[..., -1] == none)[..., None] & (choices != none)
        return match(self.query(ask), keys).masked_fill(used | ended, IMPOSSIBLE)
