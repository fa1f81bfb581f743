"""Who does it: a worker and fallbacks for each step, given its words, its type and what is preferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.config import PlannerConfig
from orchestai.lm.value_head import ValueHead
from orchestai.planner.slots.decisions import IMPOSSIBLE, Chooser, DecisionBatch, SlotLayout
from orchestai.planner.slots.decoder import Structure
from orchestai.planner.slots.heads import match, mlp
from orchestai.planner.slots.layers import SpanPool
from orchestai.planner.slots.preference_shift import PreferenceShift, preference_inputs
from orchestai.planner.slots.reader import InstructionMemory
from orchestai.preference import Preference


@dataclass(frozen=True, eq=False)
class SelectionLogits:
    """Logits of the workers of b plans of n steps.

    Attributes:
        workers: (b, n, W).
        fallbacks: (b, n, F, W + 1), given those before; the last one is that of no further worker.
        values: (b, n, 1 + F) expected return before the worker and each fallback.
    """

    workers: Tensor
    fallbacks: Tensor
    values: Tensor


class WorkerSelector(nn.Module):
    """Selects workers for given steps.

    Nothing else in the planner uses its weights, and steps and edges are decided without it. So it can learn from
    reward while the rest stays as it is.

    Args:
        card_width: width of a card's features.
    """

    def __init__(self, card_width: int, config: PlannerConfig) -> None:
        super().__init__()
        d = config.d_model
        self.layout = SlotLayout(config.max_subtasks, config.max_fallbacks)
        self.pool = SpanPool(d, config.num_heads)
        self.type_embedding = nn.Embedding(len(config.task_types) + 1, d)
        self.need = mlp(2 * d, 2 * d, d)
        self.matcher = WorkerMatcher(card_width, d, config.max_fallbacks)
        self.value = ValueHead(d, 1 + config.max_fallbacks)
        self.value_shift = PreferenceShift(d, 1 + config.max_fallbacks)

    def learn_preferences(self, learn: bool) -> None:
        """Let what preferences do learn with the rest, or keep it as it is."""
        for part in (self.matcher.shift, self.matcher.next_shift, self.value_shift):
            part.requires_grad_(learn)

    def preference_parameters(self) -> list[nn.Parameter]:
        """What preferences do to the choice of workers."""
        return [*self.matcher.shift.parameters(), *self.matcher.next_shift.parameters()]

    def forward(self, memory: InstructionMemory, cards: Tensor, given: DecisionBatch) -> SelectionLogits:
        """Logits along given decisions.

        Args:
            cards: (W, card_width) features of the pool.
        """
        return self.along(self.needs(memory, given.spans, given.types), cards, given)

    def along(self, need: Tensor, cards: Tensor, given: DecisionBatch) -> SelectionLogits:
        """`forward` on what `needs` gave."""
        keys = self.matcher.keys(cards)
        preference = preference_inputs(given.preferences, len(need), need.device)
        taken = torch.cat([given.workers[..., None], given.fallbacks], -1)
        fallbacks = [
            self.matcher.fallback(need, keys, taken[..., : f + 1], preference) for f in range(self.layout.max_fallbacks)
        ]
        return SelectionLogits(
            workers=self.matcher.worker(need, keys, preference),
            fallbacks=torch.stack(fallbacks, 2) if fallbacks else keys.new_zeros(*need.shape[:2], 0, len(keys)),
            values=self.value(need) + self.value_shift(F.layer_norm(need, need.shape[-1:]), preference),
        )

    def select(
        self,
        memory: InstructionMemory,
        cards: Tensor,
        structure: Structure,
        chooser: Chooser,
        preferences: Sequence[Preference | None] = (),
    ) -> DecisionBatch:
        """Choose workers for the steps of `structure`.

        Args:
            preferences: one per plan, or none at all.
        """
        keys = self.matcher.keys(cards)
        preference = preference_inputs(preferences, len(structure.lengths), keys.device)
        need = self.needs(memory, structure.spans, structure.types)
        steps, slot = range(need.shape[1]), self.layout.slot
        logits = self.matcher.worker(need, keys, preference)
        taken = torch.stack([chooser.choose("worker", slot(i, 4), logits[:, i]) for i in steps], 1)[..., None]
        for f in range(self.layout.max_fallbacks):
            logits = self.matcher.fallback(need, keys, taken, preference)
            following = torch.stack([chooser.choose("fallback", slot(i, 5 + f), logits[:, i]) for i in steps], 1)
            taken = torch.cat([taken, following[..., None]], -1)
        return DecisionBatch(
            structure.lengths,
            structure.spans,
            structure.types,
            taken[..., 0],
            taken[..., 1:],
            structure.edges,
            tuple(preferences),
        )

    def needs(self, memory: InstructionMemory, spans: Tensor, types: Tensor) -> Tensor:
        """(b, n, d) what each step asks for."""
        words = self.pool(memory.words, memory.inside(spans))
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
        self.shift = PreferenceShift(width, width)
        self.next_shift = nn.ModuleList(PreferenceShift(2 * width, width) for _ in range(fallbacks))

    def keys(self, cards: Tensor) -> Tensor:
        """(W, card_width) features of the pool give (W + 1, d); the last key is that of "none"."""
        return self.norm(torch.cat([self.card(cards), self.none[None]]))

    def worker(self, need: Tensor, keys: Tensor, preference: Tensor) -> Tensor:
        """(b, n, W) logits from (b, n, d) needs and (b, INPUTS) preferences."""
        return match(self.query(need) + self.shift(need, preference), keys[:-1])

    def fallback(self, need: Tensor, keys: Tensor, taken: Tensor, preference: Tensor) -> Tensor:
        """(b, n, W + 1) logits of the next fallback, given (b, n, k) workers taken before, the first one included.

        No worker is taken twice, and after "none" comes none.
        """
        place, asked = taken.shape[-1] - 1, torch.cat([need, keys[taken].mean(-2)], -1)
        ask = self.next_query[place](asked) + self.next_shift[place](asked, preference)
        none = len(keys) - 1
        choices = torch.arange(len(keys), device=keys.device)
        used = (taken[..., None] == choices).any(-2) & (choices != none)
        ended = (taken[..., -1] == none)[..., None] & (choices != none)
        return match(self.query(ask), keys).masked_fill(used | ended, IMPOSSIBLE)
