"""The encoder's upper layers, where they learn with the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface

from orchestai.planner.slots.encoders.encoder import TextEncoder

_ATTENTION = "orchestai_float32"


class TunedLayers(nn.Module):
    """Copies of the layers above the one that is read: they begin with the encoder's weights, and learn on.

    They see the text alone, without the special tokens that the encoder sets around it: with these they begin where the
    encoder ends, but what they learned was no better.

    They tell what part each token plays in the instruction. What phrases mean is still read from the frozen layers:
    where these learned, too, a planner forgot which of several results a phrase names.

    Their weights learn in float32, and are multiplied in the encoder's dtype. Outside training they are rounded to it,
    and texts are read one at a time, so that a text's meaning never depends on what it was batched with.

    Raises:
        UserError: as `TextEncoder.layers_above`.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.layers = encoder.layers_above()
        for layer in cast(Iterable[Any], self.layers):
            layer.attention.self.config._attn_implementation = _ATTENTION
        self._dtype = encoder.dtype
        self._rounded: tuple[nn.Module, ...] = ()
        self.register_load_state_dict_post_hook(TunedLayers._changed)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(b, t, width) output of the layer below at the tokens that (b, t) exist gives (b, t, width)."""
        if self.training:
            with torch.autocast(hidden.device.type, self._dtype, enabled=self._dtype != torch.float32):
                return _through(self.layers, hidden, mask[:, None, None]).float()
        self._rounded = self._rounded or self._round()
        lengths = mask.sum(-1).tolist()
        texts = [text[None, :length].to(self._dtype) for text, length in zip(hidden, lengths, strict=True)]
        return pad_sequence([_through(self._rounded, text, None)[0].float() for text in texts], batch_first=True)

    @torch.inference_mode(False)
    def _round(self) -> tuple[nn.Module, ...]:
        """For gradients of what is read, too, where inference is what asks first."""
        return tuple(deepcopy(self.layers).to(self._dtype).requires_grad_(False))

    def train(self, mode: bool = True) -> TunedLayers:
        self._changed()
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TunedLayers:
        self._changed()
        return super()._apply(fn, recurse)

    def _changed(self, *_: object) -> None:
        """The weights may be others than those that were rounded, or on another device."""
        self._rounded = ()


def _through(layers: Iterable[nn.Module], hidden: Tensor, mask: Tensor | None) -> Tensor:
    for layer in layers:
        hidden = layer(hidden, mask)
    return hidden


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **_: object
) -> tuple[Tensor, None]:
    """Attention in float32 and without dropout, as `transformers` calls it.

    On CPUs its gradient takes three times as long in bfloat16, with dropout or without.
    """
    with torch.autocast(query.device.type, enabled=False):
        found = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), mask, scale=scaling)
    return found.to(query.dtype).transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, _attend)
