"""Layers of the slot planner: attention with relative positions, the reader of instructions, the decoder's heads."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decisions import IMPOSSIBLE
from orchestai.planner.slots.decoding_rules import word_edges
from orchestai.planner.slots.text_encoder import EncodedText, TextEncoder


def padded(arrays: Sequence[NDArray[Any]], device: torch.device) -> Tensor:
    """(b, t, ...) of b arrays (at most t, ...), with zeros behind the shorter ones; float32 of fewer bits."""
    tensors = [torch.from_numpy(array).to(device) for array in arrays]
    batch = pad_sequence(tensors, batch_first=True)
    return batch.float() if batch.is_floating_point() else batch


def present(texts: Sequence[Sized], device: torch.device) -> Tensor:
    """(b, t) bool: the tokens that exist of b texts of at most t."""
    lengths = torch.tensor([len(text) for text in texts], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]


Pair: TypeAlias = tuple[Tensor, Tensor]
DROPOUT = 0.3
"""In phase 1; phase 2 always runs without."""


class Attention(nn.Module):
    """Multi-head attention.

    Args:
        rotary: queries and memory are the same sequence, and attention sees the distance between its positions
            (rotary position embeddings, Su et al. 2021).
    """

    def __init__(self, width: int, heads: int, *, rotary: bool) -> None:
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """(b, n, width) queries and (b, t, width) memory give (b, n, width).

        `mask` broadcasts to (b, heads, n, t): bool, True where attention is allowed, or a float that is added.
        """
        return self.attend(x, self.keys(memory), mask)

    def keys(self, memory: Tensor) -> Pair:
        """Keys and values of (b, t, width) memory, each (b, heads, t, width / heads)."""
        key, value = self.key_value(memory).chunk(2, -1)
        return self._split(key), self._split(value)

    def attend(self, x: Tensor, keys: Pair, mask: Tensor | None) -> Tensor:
        """`forward` on what `keys` gave; of fewer queries than keys, these are the last ones of the sequence.

        Without a mask all is allowed.
        """
        query, (key, value) = self._split(self.query(x)), keys
        if self.rotary:
            angles = _angles if torch.compiler.is_exporting() else _kept_angles
            cos, sin = angles(key.shape[2], query.shape[-1], x.device)
            behind = key.shape[2] - x.shape[1]
            query, key = _rotate(query, (cos[behind:], sin[behind:])), _rotate(key, (cos, sin))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(attended.transpose(1, 2).flatten(-2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Pre-norm self-attention and feed-forward network on (b, t, width)."""

    def __init__(self, width: int, heads: int, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.attend_self = Attention(width, heads, rotary=True)
        self.feed_forward = _feed_forward(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        normed = self.norm_self(x)
        x = x + self.dropout(self.attend_self(normed, normed, mask))
        return x + self.dropout(self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Pre-norm causal self-attention, cross-attention on a memory, and feed-forward network on (b, n, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.attend_self = Attention(width, heads, rotary=True)
        self.norm_memory = nn.LayerNorm(width)
        self.attend_memory = Attention(width, heads, rotary=False)
        self.feed_forward = _feed_forward(width)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, memory: Pair, memory_bias: Tensor, before: Pair) -> tuple[Tensor, Pair]:
        """What comes of x, and keys and values of it and of all before it, which the next call takes as `before`.

        Args:
            memory: what `attend_memory.keys` gave.
            memory_bias: broadcasts to (b, heads, n, t).
        """
        normed = self.norm_self(x)
        key, value = (torch.cat(pair, 2) for pair in zip(before, self.attend_self.keys(normed), strict=True))
        latest, length = x.shape[1], key.shape[2]
        causal = None
        if latest > 1:
            causal = torch.ones(latest, length, dtype=torch.bool, device=x.device).tril(length - latest)
        x = x + self.dropout(self.attend_self.attend(normed, (key, value), causal))
        x = x + self.dropout(self.attend_memory.attend(self.norm_memory(x), memory, memory_bias))
        return x + self.dropout(self.feed_forward(x)), (key, value)


class DistanceBias(nn.Module):
    """A learned number per head for the signed distance between two positions.

    Distances fall into buckets: exact up to 8, then ever wider up to 256, beyond which all are alike. At first, head h
    prefers what is near with a slope of 2^-h per bucket, and the last head nothing (as in ALiBi, Press et al. 2022).
    """

    _EXACT, _BUCKETS, _FARTHEST = 8, 16, 256
    _SCALE = 8.0
    """Biases must become large to matter; scaled weights get there in fewer steps."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = torch.tensor([*(2.0**-h for h in range(heads - 1)), 0.0])
        bucket = torch.arange(self._BUCKETS).repeat(2)
        self.bias = nn.Embedding.from_pretrained(-bucket[:, None] * slopes / self._SCALE, freeze=False)
        self.buckets: Tensor
        # Of the distances from -256 to 256; the negative ones have buckets of their own.
        distance = torch.arange(-self._FARTHEST, self._FARTHEST + 1)
        size = distance.abs()
        growth = (self._BUCKETS - self._EXACT) / math.log(self._FARTHEST / self._EXACT)
        wide = self._EXACT + (torch.log(size.clamp(min=1) / self._EXACT) * growth).long()
        buckets = torch.where(size < self._EXACT, size, wide.clamp(max=self._BUCKETS - 1))
        self.register_buffer("buckets", buckets + self._BUCKETS * (distance < 0), persistent=False)

    def forward(self, distance: Tensor) -> Tensor:
        """(...) int64 distances give (..., heads)."""
        return self._SCALE * self.bias(self.buckets[distance.clamp(-self._FARTHEST, self._FARTHEST) + self._FARTHEST])


class SpanPool(nn.Module):
    """Attention pooling: each head looks at the tokens of a span with a query of its own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Linear(width, heads)
        self.value = nn.Linear(width, width)

    def forward(self, tokens: Tensor, inside: Tensor) -> Tensor:
        """(b, t, width) tokens and (b, n, t) bool spans give (b, n, width); an empty span gives zeros."""
        return self.pool(self.values(tokens), inside)

    def values(self, tokens: Tensor) -> Pair:
        """How much each token counts, (b, heads, 1, t), and what it gives, (b, heads, t, width / heads)."""
        value = self.value(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.weight(tokens).transpose(1, 2)[:, :, None], value

    def pool(self, values: Pair, inside: Tensor) -> Tensor:
        """`forward` on what `values` gave."""
        weight, value = values
        return (masked_softmax(weight, inside[:, None]) @ value).transpose(1, 2).flatten(-2)


def masked_softmax(logits: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over one dimension where `mask` is True, 0 elsewhere; all 0 where it is nowhere True."""
    return torch.softmax(logits.masked_fill(~mask, -1e9), dim) * mask


def _feed_forward(width: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


def _angles(length: int, head_width: int, device: torch.device) -> Pair:
    frequency = 10000.0 ** (-torch.arange(0, head_width, 2, device=device) / head_width)
    angle = (torch.arange(length, device=device)[:, None] * frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


_kept_angles = lru_cache(maxsize=64)(torch.inference_mode(False)(_angles))
"""Kept from call to call, so made for training, too, where inference is what asks first."""


def _rotate(x: Tensor, angles: Pair) -> Tensor:
    cos, sin = angles
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


_LONGEST = 4
"""Tokens of the longest phrase that is compared as one."""
_SCALE = 8.0
"""Cosines differ by little; scaled, they matter from the start."""
_NOWHERE = -1.0
"""Below the cosine of any two phrases; what no phrase speaks of, and whoever has no rival, counts 0 instead."""


class PhraseMatcher(nn.Module):
    """Compares what steps mean with what phrases near another step mean: "the reversed text", "spell it backwards".

    A text encoder that was trained on sentences knows that these two belong together, and a planner of a few thousand
    instructions would have to learn it anew. So it begins with the cosines of the encoder's own means (over the tokens
    of a step, and over phrases of one to four tokens) and learns from there where in the encoder's space a step's
    result is spoken of. Of each step counts how well the phrase that fits best fits it, and how much better than that
    phrase fits any third step.

    Args:
        meaning_width: width of the encoder's output; out: that of the features of pairs; places: regions in which
            phrases are looked for.
    """

    def __init__(self, meaning_width: int, out: int, places: int) -> None:
        super().__init__()
        self.spoken_of = nn.Linear(meaning_width, meaning_width, bias=False)
        nn.init.eye_(self.spoken_of.weight)
        self.fits = nn.Linear(2 * _LONGEST * places, out, bias=False)

    def forward(
        self, meanings: Tensor, norms: Tensor, inside: Tensor, exists: Tensor, near: Sequence[Tensor]
    ) -> Tensor:
        """(b, n, n, out) features of every ordered pair of steps.

        Args:
            meanings: (b, t, meaning_width) the encoder's output at the tokens.
            norms: (b, _LONGEST, t) what `phrase_norms` gives of them.
            inside: (b, n, t) bool; the tokens of the steps' words. exists: (b, n) bool, the steps that exist.
            near: for each place (b, n, t) bool; where phrases that speak of others are looked for, for each step.
        """
        share = inside.to(meanings.dtype) / inside.sum(-1, keepdim=True).clamp(min=1)
        steps = F.normalize(self.spoken_of(share @ meanings), dim=-1)
        fit = (_phrase_sums(meanings @ steps.transpose(1, 2)) / norms[..., None]).transpose(2, 3)
        found = [_best(fit, _whole(place), exists) for place in near]
        fits, rival = (torch.cat(values, 1).permute(0, 2, 3, 1) for values in zip(*found, strict=True))
        spoken = fits > _NOWHERE
        lead = torch.where(spoken & (rival > _NOWHERE), fits - rival, 0.0)
        features: Tensor = self.fits(_SCALE * torch.cat([fits.where(spoken, 0.0), lead], -1))
        return features


def phrase_norms(meanings: Tensor) -> Tensor:
    """(b, _LONGEST, t): for each length, the norms of the sums of (b, t, width) over phrases that end at the tokens."""
    return _phrase_sums(meanings).norm(dim=-1).clamp(min=1e-12)


def _phrase_sums(values: Tensor) -> Tensor:
    """(b, _LONGEST, t, d): for each length, the sums of (b, t, d) over the phrases that end at the tokens.

    Before the first token there is nothing.
    """
    length = values.shape[1]
    before = [F.pad(values, (0, 0, back, 0))[:, :length] for back in range(_LONGEST)]
    return torch.stack(before, 1).cumsum(1)


def _whole(near: Tensor) -> Tensor:
    """(b, _LONGEST, n, t) bool: where phrases of each length end all of whose tokens are near."""
    ends = [near]
    for back in range(1, _LONGEST):
        ends.append(ends[-1] & F.pad(near, (back, 0))[..., : near.shape[-1]])
    return torch.stack(ends, 1)


def _best(fit: Tensor, near: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
    """Each (b, k, n, n): how the phrase near the column's step that fits the row's best fits it, and any third step.

    Args:
        fit: (b, k, n, t) of steps and phrases of k lengths.
        near: (b, k, n, t) bool; where phrases are looked for, for each step.
        exists: (b, n) bool, the steps that exist.
    """
    n = fit.shape[2]
    phrase = fit.detach()[:, :, :, None].masked_fill(~near[:, :, None], _NOWHERE).argmax(-1)
    best = fit.gather(-1, phrase).where(near.any(-1)[:, :, None], _NOWHERE)
    closest, which = fit.masked_fill(~exists[:, None, :, None], _NOWHERE).topk(min(3, n), dim=2)
    at = phrase.flatten(2)[:, :, None].expand(-1, -1, closest.shape[2], -1)
    closest, which = (one.gather(-1, at).unflatten(-1, (n, n)) for one in (closest, which))
    step = torch.arange(n, device=fit.device)
    third = (which != step[:, None]) & (which != step)
    return best, closest.masked_fill(~third, _NOWHERE).amax(2)


@dataclass(frozen=True, eq=False)
class InstructionMemory:
    """What the decoder sees of b instructions of at most t tokens.

    Attributes:
        words: (b, t, d) the encoder's features, projected: what the words mean, with little of what is around them.
        meanings: (b, t, encoder's width) its last layer's output, as it was trained to be compared.
        phrase_norms: (b, k, t) what `phrase_matcher.phrase_norms` gives of the meanings, for phrases of k lengths.
        tokens: (b, t, d) both, projected, after tokens saw each other: what part each plays in the instruction.
        mask: (b, t) bool; the tokens that exist.
        offsets: (b, t, 2) [start, end) character offsets of the tokens; zeros where there is none.
        edges: (b, t, 2) bool; the tokens at which a step's words may begin, and may end.
    """

    words: Tensor
    meanings: Tensor
    phrase_norms: Tensor
    tokens: Tensor
    mask: Tensor
    offsets: Tensor
    edges: Tensor

    @property
    def positions(self) -> Tensor:
        """(t,) 0, 1, ..."""
        return torch.arange(self.mask.shape[1], device=self.mask.device)

    def inside(self, spans: Tensor) -> Tensor:
        """(b, n, 2) first and last tokens give (b, n, t) bool: the tokens from the one to the other, both inclusive."""
        first, last = spans[..., None].unbind(-2)
        return (first <= self.positions) & (self.positions <= last)

    def __getitem__(self, rows: Tensor) -> InstructionMemory:
        return InstructionMemory(*(getattr(self, field.name)[rows] for field in fields(self)))


class InstructionReader(nn.Module):
    """Projects the encoder's features and lets tokens see each other and their distances."""

    def __init__(self, encoder: TextEncoder, config: PlannerConfig) -> None:
        super().__init__()
        encoder_width = encoder.width
        self.project = nn.Sequential(nn.LayerNorm(encoder_width), nn.Linear(encoder_width, config.d_model))
        self.meaning = nn.Sequential(nn.LayerNorm(encoder_width // 2), nn.Linear(encoder_width // 2, config.d_model))
        self.layers = nn.ModuleList(EncoderLayer(config.d_model, config.num_heads) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.d_model)

    def forward(self, texts: Sequence[EncodedText], device: torch.device) -> InstructionMemory:
        return self.read(
            padded([text.features for text in texts], device),
            padded([text.meanings for text in texts], device),
            present(texts, device),
            padded([text.offsets for text in texts], device),
            padded([word_edges(text.text, text.offsets) for text in texts], device),
        )

    def read(
        self, features: Tensor, meanings: Tensor, mask: Tensor, offsets: Tensor, edges: Tensor
    ) -> InstructionMemory:
        """`forward` for padded tensors, with what `InstructionMemory` keeps of them."""
        words = self.project(features)
        tokens = words + self.meaning(meanings)
        for layer in self.layers:
            tokens = layer(tokens, mask[:, None, None])
        return InstructionMemory(words, meanings, phrase_norms(meanings), self.norm(tokens), mask, offsets, edges)


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
