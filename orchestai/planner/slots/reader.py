"""Reading: token features of an encoder become the memory that plans are decoded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decoding_rules import word_edges
from orchestai.planner.slots.encoders.encoder import EncodedText, TextEncoder
from orchestai.planner.slots.layers import EncoderLayer, padded, present

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
