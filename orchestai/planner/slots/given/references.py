"""What the words of a given step say of the other steps by their numbers: "#2", "step 2", "the second result"."""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.planner.slots.encoders.encoder import TextEncoder
from orchestai.text.ordinals import ORDINALS

_NO_TOKEN = -1


class References(nn.Module):
    """Finds in a step's own words the tokens that are the number of another, as a figure or as an ordinal.

    Which step a number is of is not learned, so that one which no training plan had is understood. Whether it is a
    reference ("#2") or counts something ("2 cups") is learned, from the encoder's output there and at the tokens
    beside it.

    Args:
        text_encoder: of the instructions.
        out: width of the features of pairs.
        max_subtasks: most steps.
        dropout: on what is read of tokens.
    """

    def __init__(self, text_encoder: TextEncoder, out: int, max_subtasks: int, dropout: float) -> None:
        super().__init__()
        width = 3 * text_encoder.width // 2
        self.around = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout), nn.Linear(width, out), nn.GELU())
        self.out = nn.Linear(out, out, bias=False)
        self.numbers: Tensor
        self.register_buffer("numbers", _numbers(text_encoder, max_subtasks), persistent=False)

    def forward(self, tokens: Tensor, ids: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
        """(b, n, n, out), 0 where the words of the column's step have no number of the row's.

        Args:
            tokens: (b, t, width) the encoder's output; ids: (b, t) of its vocabulary.
            spans: (b, n, 2) first and last tokens of the steps.
            steps: (b, n) bool; the steps that exist.
        """
        n, position = steps.shape[1], torch.arange(ids.shape[1], device=ids.device)
        own = (position >= spans[..., :1]) & (position <= spans[..., 1:]) & steps[..., None]
        is_number = (ids[:, None, None] == self.numbers[:n, :, None]).any(2)
        named = (is_number[:, :, None] & own[:, None]).to(tokens.dtype)
        padded = F.pad(tokens, (0, 0, 1, 1))
        around = self.around(torch.cat([padded[:, :-2], tokens, padded[:, 2:]], -1))
        found: Tensor = self.out(named.flatten(1, 2) @ around)
        return found.unflatten(1, (n, n))


def _numbers(text_encoder: TextEncoder, count: int) -> Tensor:
    """(count, 2) the tokens of each number as a figure and as an ordinal; `_NO_TOKEN` where it is no single one."""
    figures = [str(number) for number in range(1, count + 1)]
    spelled = zip_longest(figures, ORDINALS[:count], fillvalue="")
    single = [[_only(text_encoder.token_ids(word)) for word in words] for words in spelled]
    return torch.tensor(single)


def _only(ids: list[int]) -> int:
    return ids[0] if len(ids) == 1 else _NO_TOKEN
