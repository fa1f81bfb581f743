"""An instruction as the structure decoder's layers see it, projected once however often they look at it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from orchestai.planner.slots.layers import Pair
from orchestai.planner.slots.reader import InstructionMemory


@dataclass(frozen=True, eq=False)
class DecoderMemory:
    """What the decoder's layers make of an `InstructionMemory`, whatever was decided so far.

    Attributes:
        memory: the instructions themselves.
        attended: keys and values of each layer's cross-attention.
        pointed: keys (b, t, d) by which a first and a last token are found.
        pooled: what the words of steps are pooled from.
        boundaries: (b, t, 2) logits that words begin, and end, at a token.
    """

    memory: InstructionMemory
    attended: tuple[Pair, ...]
    pointed: Pair
    pooled: Pair
    boundaries: Tensor

    def __getitem__(self, rows: Tensor) -> DecoderMemory:
        return DecoderMemory(
            self.memory[rows],
            tuple(pair_rows(pair, rows) for pair in self.attended),
            pair_rows(self.pointed, rows),
            pair_rows(self.pooled, rows),
            self.boundaries[rows],
        )

    def repeated(self, times: int) -> DecoderMemory:
        """Each instruction so many times in a row."""
        return self[torch.arange(len(self.boundaries), device=self.boundaries.device).repeat_interleave(times)]


def pair_rows(pair: Pair, rows: Tensor) -> Pair:
    return pair[0][rows], pair[1][rows]
