"""Reading: token features of a frozen encoder become the memory that plans are decoded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import PlannerConfig
from orchestai.planner.encoder import EncodedText
from orchestai.planner.layers import EncoderLayer


@dataclass(frozen=True, eq=False)
class Memory:
    """What the decoder sees of b instructions of at most t tokens.

    Attributes:
        tokens: (b, t, d) adapted features.
        words: (b, t, d + width) the same beside the encoder's own features, which keep the words' meaning.
        mask: (b, t) bool; the tokens that exist.
        offsets: (b, t, 2) [start, end) character offsets of the tokens; zeros where there is none.
    """

    tokens: Tensor
    words: Tensor
    mask: Tensor
    offsets: Tensor

    @property
    def lengths(self) -> Tensor:
        """(b,) tokens of each instruction."""
        return self.mask.sum(-1)

    def __getitem__(self, rows: Tensor) -> Memory:
        return Memory(self.tokens[rows], self.words[rows], self.mask[rows], self.offsets[rows])


class InstructionReader(nn.Module):
    """Projects the encoder's features and lets tokens see each other and their distances."""

    def __init__(self, encoder_width: int, config: PlannerConfig) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.LayerNorm(encoder_width), nn.Linear(encoder_width, config.d_model))
        self.layers = nn.ModuleList(
            EncoderLayer(config.d_model, config.num_heads, config.dropout) for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(config.d_model)
        self.norm_words = nn.LayerNorm(encoder_width)

    def forward(self, texts: Sequence[EncodedText], device: torch.device) -> Memory:
        raw = pad_sequence([text.features.to(device, torch.float32) for text in texts], batch_first=True)
        lengths = torch.tensor([len(text) for text in texts], device=device)
        mask = torch.arange(raw.shape[1], device=device) < lengths[:, None]
        x = self.project(raw)
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        tokens = self.norm(x)
        offsets = pad_sequence([text.offsets.to(device) for text in texts], batch_first=True)
        return Memory(tokens, torch.cat([tokens, self.norm_words(raw)], -1), mask, offsets)
