"""The encoder's upper layers, where they learn with the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface

from orchestai.planner.slots.encoders.encoder import EncodedText, TextEncoder

_ATTENTION = "orchestai_float32"


class TunedLayers(nn.Module):
    """Copies of the layers above the one that is read: they begin as the encoder was trained, and learn on.

    They tell what part each token plays in the instruction. What phrases mean is still read from the frozen layers:
    where these learned, too, a planner forgot which of several results a phrase names.

    Their weights learn in float32, and are multiplied in the encoder's dtype. Outside training they are rounded to it,
    and texts are read one at a time, so that a text's meaning never depends on what it was batched with.

    Attributes:
        between: whether they read texts between the encoder's special tokens, as they were trained to; planners of
            earlier versions do without.

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
        self.between: Tensor
        self.register_buffer("between", torch.tensor(True))
        self.register_load_state_dict_post_hook(TunedLayers._changed)

    def forward(self, texts: Sequence[EncodedText], device: torch.device) -> Tensor:
        """(b, t, width) output at the tokens of b texts of at most t; what stands beyond a text's end says nothing."""
        own = [len(text) for text in texts]
        if self.between:
            first = len(texts[0].before)
            parts = [torch.cat([text.before, text.hidden, text.after]) for text in texts]
        else:
            first, parts = 0, [text.hidden for text in texts]
        hidden = [part.to(device, torch.float32) for part in parts]
        if self.training:
            lengths = torch.tensor([len(part) for part in parts], device=device)
            mask = torch.arange(max(map(len, parts)), device=device) < lengths[:, None]
            with torch.autocast(device.type, self._dtype, enabled=self._dtype != torch.float32):
                read = _through(self.layers, pad_sequence(hidden, batch_first=True), mask[:, None, None])
            return read[:, first : first + max(own)].float()
        self._rounded = self._rounded or tuple(deepcopy(self.layers).to(self._dtype).requires_grad_(False))
        alone = [_through(self._rounded, part[None].to(self._dtype), None)[0] for part in hidden]
        kept = [read[first : first + length].float() for read, length in zip(alone, own, strict=True)]
        return pad_sequence(kept, batch_first=True)

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
