"""The heads of the structure decoder: where a step's words are, and which steps feed it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.planner.slots.decisions import IMPOSSIBLE
from orchestai.planner.slots.layers import DistanceBias, EncoderLayer, masked_softmax
from orchestai.planner.slots.reader import InstructionMemory, PhraseMatcher

_APART = 2
"""From this distance on, steps that are farther apart are not told from others in plans of any length."""


class Boundaries(nn.Module):
    """Says of every token whether the words of some step begin there, or end, whatever is decided about others.

    Every token of every instruction teaches it, where the pointer learns one choice per step. It adds to the pointer's
    logits, and as long as words may still begin somewhere it speaks for another step.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.side = nn.Linear(width, 2)
        self.any_left = nn.Parameter(torch.ones(()))

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, t, d) tokens give (b, t, 2) logits of a beginning and of an end."""
        logits: Tensor = self.side(tokens)
        return logits

    def more(self, boundaries: Tensor, free: Tensor) -> Tensor:
        """(b, n) logits that words begin at some of the tokens that are (b, n, t) free; 0 where none is."""
        begin = boundaries[:, None, :, 0].masked_fill(~free, IMPOSSIBLE).logsumexp(-1)
        return self.any_left * begin.masked_fill(~free.any(-1), 0.0)


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

    def keys(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What (b, t, d) tokens offer as the first and as the last one, each (b, t, d)."""
        return self.start_key(tokens), self.end_key(tokens)

    def start(self, state: Tensor, keys: Tensor, free: Tensor, distance: Tensor) -> Tensor:
        """(b, n, t) logits from (b, n, d) states.

        Args:
            keys: the first of what `keys` gave.
            free: (b, n, t) bool; the tokens that the step may have.
            distance: (b, n, t) from the previous step's last token.
        """
        logits = match(self.start_query(state), keys) + self.start_distance(distance)[..., 0]
        return logits.masked_fill(~free, IMPOSSIBLE)

    def end(self, state: Tensor, tokens: Tensor, keys: Tensor, free: Tensor, start: Tensor) -> Tensor:
        """(b, n, t) logits given (b, n) starts; nothing ends before it starts, or beyond a token that is not free.

        Args:
            keys: the second of what `keys` gave.
        """
        at_start = tokens.gather(1, start[..., None].expand(-1, -1, tokens.shape[-1]))
        distance = torch.arange(tokens.shape[1], device=tokens.device) - start[..., None]
        logits = match(self.end_query(torch.cat([state, at_start], -1)), keys)
        logits = logits + self.end_distance(distance)[..., 0]
        taken = (~free).cumsum(-1)
        unbroken = free & (taken == taken.gather(-1, start[..., None]))
        return logits.masked_fill(~unbroken | (distance < 0), IMPOSSIBLE)


def first_accepted(logits: Tensor) -> Tensor:
    """Of (..., t) logits to accept each token, read from left to right, the log-probability that it is the first.

    A token competes with those before it, which are passed over, and not with what comes later: whatever stands far
    behind, and however much of it, changes nothing. (A discrete hazard, as in Cox 1972, section 6.)
    """
    passed = F.logsigmoid(-logits)
    return F.logsigmoid(logits) + passed.cumsum(-1) - passed


class ReferenceMatcher(nn.Module):
    """Looks near a step for a reference to another ("with the words and the vowel count, ...", "take that from ...").

    For each ordered pair of steps it attends to the tokens that fit the first step, and weighs how well they fit it,
    and how much better than they fit the other steps.

    Args:
        step_width: width of what describes a step.
    """

    def __init__(self, step_width: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.referent = nn.Linear(step_width, width)
        self.reference = nn.Linear(width, width)
        self.agreement = nn.Linear(width, width)
        self.fits = nn.Linear(2 * heads, width)

    def forward(self, steps: Tensor, exists: Tensor, tokens: Tensor, near: Tensor) -> Tensor:
        """(b, n, n, width) features of pairs.

        Args:
            steps: (b, n, step_width).
            exists: (b, n) bool.
            tokens: (b, t, width) the instruction's.
            near: (b, n, t) bool; the tokens before each step's words that may say what it takes.
        """
        n = steps.shape[1]
        referent, reference = self.referent(steps), self._split(self.reference(tokens))
        fit = match(self._split(referent), reference)  # (b, heads, parent, t)
        share = masked_softmax(fit, exists[:, None, :, None], dim=2)
        attention = masked_softmax(fit[:, :, :, None], near[:, None, None])  # (b, heads, parent, child, t)
        found = (attention.flatten(2, 3) @ reference).unflatten(2, (n, n)).permute(0, 2, 3, 1, 4).flatten(-2)
        fits = (attention @ torch.stack([fit, share], -1)).permute(0, 2, 3, 4, 1).flatten(-2)
        return self.agreement(found * referent[:, :, None]) + self.fits(fits)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class EdgeScorer(nn.Module):
    """Says for each ordered pair of steps whether the second takes the first one's output.

    Steps are referred to by what they are ("the vowel count") or by their place ("step 2"): one matcher compares words
    with words, another has everything that is known of a step and of the tokens. Both look at what is said before the
    step's words, a third at these words themselves. Then the pairs with the same second step see each other: most steps
    take a certain number of outputs, so what speaks for one parent speaks against another.
    """

    def __init__(self, width: int, meaning_width: int, heads: int, max_subtasks: int, *, any_length: bool) -> None:
        super().__init__()
        self.max_subtasks = max_subtasks
        self.farthest = _APART if any_length else max_subtasks - 1
        self.by_words = ReferenceMatcher(width, width, heads)
        self.by_part = ReferenceMatcher(2 * width, width, heads)
        self.within = ReferenceMatcher(2 * width, width, heads)
        self.meant = PhraseMatcher(meaning_width, width, places=2)
        self.parent = nn.Linear(width, width)
        self.child = nn.Linear(width, width)
        self.distance = nn.Embedding(2 * max_subtasks - 1, width)
        self.rivals = EncoderLayer(width, heads)
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(
        self, steps: Tensor, content: Tensor, exists: Tensor, memory: InstructionMemory, before: Tensor, own: Tensor
    ) -> Tensor:
        """(b, n, n) logits.

        Args:
            steps: (b, n, d) what was decided for each step.
            content: (b, n, d) its words.
            exists: (b, n) bool.
            before: (b, n, t) bool; the tokens before each step's words that may say what it takes.
            own: (b, n, t) bool; the tokens of its words.
        """
        n = steps.shape[1]
        index = torch.arange(n, device=steps.device)
        apart = (index - index[:, None]).clamp(-self.farthest, self.farthest)
        distance = self.distance(apart + self.max_subtasks - 1)
        pairs = self.parent(steps)[:, :, None] + self.child(steps)[:, None] + distance
        pairs = pairs + self.by_words(content, exists, memory.words, before)
        known = torch.cat([steps, content], -1)
        pairs = pairs + self.by_part(known, exists, memory.tokens, before)
        pairs = pairs + self.within(known, exists, memory.tokens, own)
        pairs = pairs + self.meant(memory.meanings, memory.phrase_norms, own, exists, (before, own))
        rivals = pairs.transpose(1, 2).flatten(0, 1)
        present = exists.repeat_interleave(n, 0)[:, None, None]
        return self.out(self.rivals(rivals, present))[..., 0].unflatten(0, (-1, n)).transpose(1, 2)


def match(query: Tensor, key: Tensor) -> Tensor:
    """Scaled dot products of (..., n, d) and (..., k, d) as (..., n, k)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def mlp(width_in: int, hidden: int, width_out: int) -> nn.Module:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.GELU(), nn.Linear(hidden, width_out))
