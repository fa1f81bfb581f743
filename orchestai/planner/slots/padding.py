"""Texts of several lengths as one batch."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def padded(arrays: Sequence[NDArray[Any]], device: torch.device) -> Tensor:
    """(b, t, ...) of b arrays (at most t, ...), with zeros behind the shorter ones; float32 of fewer bits."""
    tensors = [torch.from_numpy(array).to(device) for array in arrays]
    batch = pad_sequence(tensors, batch_first=True)
    return batch.float() if batch.is_floating_point() else batch


def present(texts: Sequence[Sized], device: torch.device) -> Tensor:
    """(b, t) bool: the tokens that exist of b texts of at most t."""
    lengths = torch.tensor([len(text) for text in texts], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]
