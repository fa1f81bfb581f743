"""Whether an instruction is worded like those that were learned from: how sure a planner is of others says nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_OFTEN = 4
"""Instructions with a token from which on it is no rare one."""
_USUAL = 0.2
"""Share of rare tokens that is nothing unusual, however few all instructions have: one new word in a short sentence."""
_QUANTILE = 0.99
"""Share of the instructions that were learned from which count as worded like the others."""


class FamiliarWords(nn.Module):
    """Counts the instructions with each token; until then every wording is familiar.

    In another language a planner takes unknown words for none of a step's and leaves them out without any doubt.

    Args:
        vocabulary: how many tokens there are.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.counts: Tensor
        self.most: Tensor
        self.register_buffer("counts", torch.zeros(vocabulary, dtype=torch.int32))
        self.register_buffer("most", torch.tensor(1.0))
        self._counted = torch.zeros(0, dtype=torch.int64)

    def get_extra_state(self) -> Tensor:
        """(n,) int64 hashes of the instructions that were counted."""
        return self._counted

    def set_extra_state(self, state: Tensor) -> None:
        self._counted = state

    @torch.no_grad()
    def learn(self, texts: Sequence[Tensor]) -> None:
        """Count the tokens of instructions that no earlier training has counted; none changes nothing.

        What is rare in one of them is what hardly any other has. An instruction that is learned again says nothing new:
        counted in each training, no word of it would stay rare.
        """
        if not texts:
            return
        before, now = set(self._counted.tolist()), [_hash(text) for text in texts]
        for text, its in zip(texts, now, strict=True):
            if its not in before:
                self.counts[text.unique().to(self.counts.device)] += 1
        self._counted = torch.tensor(sorted(before.union(now)))
        rare = torch.stack([self._rare(text, _OFTEN + 1) for text in texts])
        self.most.fill_(max(_USUAL, float(rare.quantile(_QUANTILE))))

    def knows(self, text: Tensor) -> Tensor:
        """() bool; whether an instruction of these tokens has no more rare ones than nearly all learned from."""
        return self._rare(text, _OFTEN) <= self.most + 1e-6

    def _rare(self, text: Tensor, often: int) -> Tensor:
        return (self.counts[text.to(self.counts.device)] < often).float().mean()


def _hash(text: Tensor) -> int:
    digest = hashlib.sha256(text.cpu().long().numpy().tobytes()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
