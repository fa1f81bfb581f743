"""Reading: token features of an encoder become the memory that plans are decoded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decoding_rules import word_edges
from orchestai.planner.slots.encoders.encoder import EncodedText, TextEncoder
from orchestai.planner.slots.layers import EncoderLayer
from orchestai.planner.slots.padding import padded, present
from orchestai.planner.slots.phrase_matcher import phrase_norms


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
        self.layers = nn.ModuleList(
            EncoderLayer(config.d_model, config.num_heads, config.dropout) for _ in range(config.num_layers)
        )
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
