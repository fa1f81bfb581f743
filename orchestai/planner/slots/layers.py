"""Transformer layers with relative positions, so that plans and instructions longer than any in training still work."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
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
        self.register_buffer("buckets", self._buckets(), persistent=False)

    def forward(self, distance: Tensor) -> Tensor:
        """(...) int64 distances give (..., heads)."""
        return self._SCALE * self.bias(self.buckets[distance.clamp(-self._FARTHEST, self._FARTHEST) + self._FARTHEST])

    def _buckets(self) -> Tensor:
        """Of the distances from -256 to 256; the negative ones have buckets of their own."""
        distance = torch.arange(-self._FARTHEST, self._FARTHEST + 1)
        size = distance.abs()
        growth = (self._BUCKETS - self._EXACT) / math.log(self._FARTHEST / self._EXACT)
        wide = self._EXACT + (torch.log(size.clamp(min=1) / self._EXACT) * growth).long()
        bucket = torch.where(size < self._EXACT, size, wide.clamp(max=self._BUCKETS - 1))
        return bucket + self._BUCKETS * (distance < 0)


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
