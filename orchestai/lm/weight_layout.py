"""Weights in the layout in which a CPU multiplies a few rows by fastest.

While tokens are decoded a few rows meet every weight, and a step takes as long as reading the weights. oneDNN reads
them in blocks of its own almost twice as fast as PyTorch reads its rows (docs/language.md has figures). Making the
blocks takes as long as a few steps, so they are made anew for every decoding, and no change of weights can be missed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

_CACHED = 2**25
"""Bytes of weights that may well stay in a CPU cache, so that their layout is not worth a copy."""


@contextmanager
def blocked_weights(model: nn.Module) -> Iterator[None]:
    """Let the linear layers of `model` multiply by copies of their weights in blocks, while the block lasts.

    Only on x86 processors, in float32, or bfloat16 where the processor has instructions for it (AVX-512 or
    AVX-NE-CONVERT); elsewhere, and for small models, nothing changes. Meanwhile the layers give no gradient, and their
    weights must not change. Products differ by rounding alone. The copies take as much memory as the weights.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear) and _suits(module)]
    if sum(layer.weight.nbytes for layer in layers) <= _CACHED:
        layers = []
    for layer in layers:
        vars(layer)["forward"] = _product(layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["forward"]


def _suits(layer: nn.Linear) -> bool:
    """Whether it computes what every linear layer does, and oneDNN has blocks for its weights here."""
    return (
        type(layer) is nn.Linear
        and "forward" not in vars(layer)
        and layer.weight.device.type == "cpu"
        and platform.machine().lower() in ("x86_64", "amd64")
        and torch.backends.mkldnn.is_available()
        and has_blocks(layer.weight.dtype)
        and not torch.is_autocast_enabled("cpu")
    )


def has_blocks(dtype: torch.dtype) -> bool:
    """Whether oneDNN has blocks for weights of this dtype on this processor."""
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def _product(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    multiply: Any = torch.ops.mkldnn._linear_pointwise.default
    blocks, bias = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach()), layer.bias

    def forward(states: Tensor) -> Tensor:
        return multiply(states, blocks, bias, "none", [], "")

    return forward
