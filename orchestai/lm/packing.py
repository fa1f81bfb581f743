"""Puts rows that share prompts into one sequence: [prompt | its completions | next prompt | ...].

Each prompt is then computed once, and no padding is computed but in attention, where the completions of one prompt are
as long as the longest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from torch import Tensor


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
