"""Attention for token sequences that are no plain batch: who sees whom is up to an object given with the call.

One function is registered under `NAME` with transformers' `AttentionInterface`, so no model code is touched. Models
hand it the keyword arguments of their call; `attending=` among them says how queries meet keys (`Packing` for packed
prompts and completions, `sampling.Memory` for tokens after remembered ones). Without it the model works as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from orchestai.lm.packing import pack

if TYPE_CHECKING:
    from torch import Tensor, nn

NAME = "orchestai"
_UNSUPPORTED = ("softcap", "s_aux", "position_bias")


class UnsuitableModelError(Exception):
    """What would be computed with this attention is something else than the model; says why."""


class SlidingWindowError(UnsuitableModelError):
    """A row is longer than what the model attends to."""


class Attending(Protocol):
    """Says how queries meet keys.

    Attributes:
        longest: tokens of the longest row; a sliding window must not be shorter.
    """

    @property
    def longest(self) -> int: ...

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        """(1, heads, tokens, head_dim), from a query of this shape; key and value may have fewer heads."""
        ...


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    attending: Attending | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The registered function: (batch, heads, tokens, head_dim) tensors to (batch, tokens, heads, head_dim)."""
    if attending is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
        )
    if found := [name for name in _UNSUPPORTED if kwargs.get(name) is not None]:
        raise UnsuitableModelError(f"its attention needs {found[0]}, which is not supported")
    if sliding_window is not None and sliding_window < attending.longest:
        raise SlidingWindowError(
            f"it attends to {sliding_window} tokens at most, but prompt and completion have {attending.longest}"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return attending.attend(layer, query, key, value, scale, dropout).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


def prepare(model: PreTrainedModel) -> None:
    """Make `model` use this attention.

    Raises:
        UnsuitableModelError: some of its layers are not of the kind that looks at all tokens before, or it changes its
            logits after the last linear layer.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        raise UnsuitableModelError(f"{config.model_type} has layers of {', '.join(sorted(kinds))}")
    if getattr(config, "final_logit_softcapping", None) is not None:
        raise UnsuitableModelError(f"{config.model_type} caps its logits, which is not supported")
    model.set_attn_implementation(NAME)
    if config._attn_implementation != NAME:
        raise UnsuitableModelError(f"{config.model_type} has attention of its own")


def read(model: PreTrainedModel, ids: Tensor, positions: Tensor, attending: Attending) -> Tensor:
    """Last hidden states (tokens, hidden_size) of `ids` at `positions`, both (tokens,)."""
    output: Any = model.get_decoder()(
        input_ids=ids[None],
        position_ids=positions[None],
        attention_mask=torch.zeros(1, 1, 1, 1, dtype=model.dtype, device=ids.device),  # 4D: no other mask is built
        use_cache=False,
        attending=attending,
    )
    return output.last_hidden_state[0]


@contextmanager
def without_dropout(module: nn.Module) -> Iterator[None]:
    """In evaluation mode while the block lasts; then every part is in the mode that it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@torch.no_grad()
def verify(model: PreTrainedModel, vocabulary: int) -> None:
    """Compare what `model` says of two packed rows behind one prompt, after another prompt, with each row alone.

    In the model's own dtype, whatever is around: mixed precision alone makes the two differ. Of tokens in the middle of
    the vocabulary: the first ones of many stand for no text, and bfloat16 rounds such rows four times as much.

    Raises:
        UnsuitableModelError: they differ by more than rounding, as with layers that see tokens without attending to
            them.
    """
    tokens = (torch.arange(22) + vocabulary // 2) % vocabulary
    prompts = [tokens[first:last] for first, last in ((1, 4), (5, 10), (5, 10))]
    completions = [tokens[first:last] for first, last in ((11, 13), (14, 17), (18, 22))]
    packing = pack(prompts, completions, model.device)
    head: Any = model.get_output_embeddings()
    with without_dropout(model), torch.autocast(model.device.type, enabled=False):
        packed = head(read(model, packing.ids, packing.positions, packing)[packing.sources])
        outputs: list[Any] = [
            model(input_ids=torch.cat(row).to(model.device)[None], use_cache=False)
            for row in zip(prompts, completions, strict=True)
        ]
    for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        alone = output.logits[0, len(prompt) - 1 : -1].float()
        difference = float((alone - packed[packing.rows == row].float()).abs().mean() / alone.std())
        if difference > (1e-3 if packed.dtype == torch.float32 else 0.1):
            raise UnsuitableModelError(
                f"{model.config.model_type} computes something else on packed rows than on single ones (logits differ "
                f"by {difference:.2g} standard deviations)"
            )
