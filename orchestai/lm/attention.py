"""Attention for token sequences that are no plain batch: who sees whom is up to an object given with the call.

One function is registered under `NAME` with transformers' `AttentionInterface`, so no model code is touched. Models
hand it the keyword arguments of their call; `attending=` among them says how queries meet keys (`Packing` for packed
prompts and completions, `sampling.Memory` for tokens after remembered ones). Without it the model works as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class _Group:
    """A prompt and its completions.

    Attributes:
        start, prompt, end: the prompt is at [start, prompt) of the sequence, its completions at [prompt, end).
        padded: (completions, longest) int64; places of the completions' tokens after `prompt`, pads anywhere.
        kept: (end - prompt,) int64; where in the flattened `padded` the tokens are.
        visible: (longest, prompt length + longest) bool; who sees whom.
    """

    start: int
    prompt: int
    end: int
    padded: Tensor
    kept: Tensor
    visible: Tensor


@dataclass(frozen=True, eq=False)
class Packing:
    """Where everything is. A completion's last token predicts nothing and is left out.

    Attributes:
        ids: (tokens,) int64.
        positions: (tokens,) int64; each token's place in its own prompt and completion.
        groups: who attends to whom.
        longest: tokens of the longest prompt with what is read of its completion.
        ends: (prompts,) int64; places of the prompts' last tokens.
        group_of: per row, the index of its prompt.
        sources: (predictions,) int64; per completion token the place of the token before it.
        targets: (predictions,) int64; the completion tokens.
        rows, slots: (predictions,) int64; which row and which of its tokens that is.
    """

    ids: Tensor
    positions: Tensor
    groups: Sequence[_Group]
    longest: int
    ends: Tensor
    group_of: Sequence[int]
    sources: Tensor
    targets: Tensor
    rows: Tensor
    slots: Tensor

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        """(1, heads, tokens, head_dim); see `attention.Attending`."""
        parts = []
        for group in self.groups:
            prompt = slice(group.start, group.prompt)
            parts.append(
                scaled_dot_product_attention(
                    query[:, :, prompt],
                    key[:, :, prompt],
                    value[:, :, prompt],
                    is_causal=True,
                    scale=scale,
                    dropout_p=dropout,
                    enable_gqa=key.shape[1] < query.shape[1],
                )
            )
            if group.end > group.prompt:
                parts.append(_attend_completions(group, query, key, value, scale, dropout))
        return torch.cat(parts, dim=2)


def _attend_completions(
    group: _Group, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float
) -> Tensor:
    """Completions see their prompt and themselves: (1, heads, tokens of all completions, head_dim)."""
    heads, key_heads = query.shape[1], key.shape[1]
    completions, longest = group.padded.shape

    def own(states: Tensor) -> Tensor:
        picked = states[0, :, group.prompt : group.end].index_select(1, group.padded.flatten())
        return picked.unflatten(1, (completions, longest)).transpose(0, 1)

    def seen(states: Tensor) -> Tensor:
        prompt = states[:, :, group.start : group.prompt].expand(completions, -1, -1, -1)
        return torch.cat([prompt, own(states)], dim=2)

    # Heads that share keys are queries in a row: grouped attention with a mask is slow, or missing, in many kernels.
    shared = heads // key_heads
    attended = scaled_dot_product_attention(
        own(query).reshape(completions, key_heads, shared * longest, -1),
        seen(key),
        seen(value),
        attn_mask=group.visible.repeat(shared, 1),
        scale=scale,
        dropout_p=dropout,
    )
    flat = attended.reshape(completions, heads, longest, -1).transpose(0, 1).flatten(1, 2)
    return flat.index_select(1, group.kept)[None]


def pack(prompts: Sequence[Tensor], completions: Sequence[Tensor], device: torch.device) -> Packing:
    """Rows of (tokens,) int64 prompts, at least one token each, and completions, which may be empty."""
    members: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        members.setdefault(tuple(prompt.tolist()), []).append(row)
    ids: list[Tensor] = []
    positions: list[Tensor] = []
    groups: list[_Group] = []
    ends: list[int] = []
    sources: list[Tensor] = [torch.empty(0, dtype=torch.long)] * len(prompts)
    group_of = [0] * len(prompts)
    place = 0
    for number, rows in enumerate(members.values()):
        prompt = prompts[rows[0]]
        start, place = place, place + len(prompt)
        after_prompt = place
        ids.append(prompt)
        positions.append(torch.arange(len(prompt)))
        ends.append(place - 1)
        lengths = []
        for row in rows:
            group_of[row] = number
            read = completions[row][:-1]
            if len(completions[row]):
                own = torch.arange(place, place + len(read))
                sources[row] = torch.cat([torch.tensor([after_prompt - 1]), own])
            if len(read):
                ids.append(read)
                positions.append(len(prompt) + torch.arange(len(read)))
                lengths.append(len(read))
                place += len(read)
        groups.append(_group(start, after_prompt, lengths, device))
    rows_of = torch.repeat_interleave(torch.arange(len(prompts)), torch.tensor([len(c) for c in completions]))
    return Packing(
        ids=torch.cat(ids).to(device),
        positions=torch.cat(positions).to(device),
        groups=groups,
        longest=max(len(p) + len(c[:-1]) for p, c in zip(prompts, completions, strict=True)),
        ends=torch.tensor(ends, device=device),
        group_of=group_of,
        sources=torch.cat(sources).to(device),
        targets=torch.cat(list(completions)).to(device),
        rows=rows_of.to(device),
        slots=torch.cat([torch.arange(len(c)) for c in completions]).to(device),
    )


def _group(start: int, prompt: int, lengths: Sequence[int], device: torch.device) -> _Group:
    longest = max(lengths, default=0)
    counts = torch.tensor(lengths, dtype=torch.long)[:, None]
    slots = torch.arange(longest)
    exists = slots < counts
    places = (counts.cumsum(0) - counts + slots).clamp(max=max(sum(lengths) - 1, 0))
    return _Group(
        start=start,
        prompt=prompt,
        end=prompt + sum(lengths),
        padded=places.to(device),
        kept=exists.flatten().nonzero()[:, 0].to(device),
        visible=torch.ones(longest, prompt - start + longest, dtype=torch.bool).tril(prompt - start).to(device),
    )


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
    """Last hidden states (tokens, hidden_size) of `ids` at `positions`, both (tokens,).

    Raises:
        SlidingWindowError: a row is longer than the angles last that its model has for short ones: the longest of a
            pass decides for all, and what was remembered of a row before it became long has others.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    lasts = rope.get("original_max_position_embeddings")
    if rope.get("rope_type") in ("longrope", "dynamic") and lasts is not None and attending.longest > lasts:
        raise SlidingWindowError(
            f"its positions are rotated otherwise in rows of more than {lasts} tokens, but prompt and completion have "
            f"{attending.longest}"
        )
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
