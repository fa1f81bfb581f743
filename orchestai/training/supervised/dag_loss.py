"""What a language model says along a given completion: its logits, and the mass that it puts on impossible parents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CONTEXTS = ('"fallback":[],"depends_on":[', '"fallback":[],"depends_on":[1,')
"""What comes before the first id in a list of parents, and before a further one."""


def completion_logits(
    model: PreTrainedModel, prompts: Sequence[Tensor], completions: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of every token of every completion; the output layer sees no others.

    Args:
        prompts: per row (tokens,) int64, at least one token.
        completions: per row (tokens,) int64.

    Returns:
        (rows, tokens of the longest completion, vocabulary) float32 logits with gradient, the ids that they are about,
        and a mask of those that exist.
    """
    device = model.device
    width, length = max(map(len, prompts)), max(map(len, completions))
    ids = torch.zeros(len(prompts), width + length, dtype=torch.long)
    exists = torch.zeros_like(ids, dtype=torch.bool)
    for row, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        first, last = width - len(prompt), width + len(completion)
        ids[row, first:last] = torch.cat([prompt, completion])
        exists[row, first:last] = True
    ids, exists = ids.to(device), exists.to(device)
    output: Any = model(
        input_ids=ids,
        attention_mask=exists.long(),
        position_ids=(exists.cumsum(1) - 1).clamp(min=0),
        logits_to_keep=length + 1,
        use_cache=False,
    )
    return output.logits[:, :-1].float(), ids[:, width:], exists[:, width:]


class ImpossibleParents:
    """The tokens that stand for parents which a step cannot have: itself, later steps, and steps that cannot exist.

    The DAG-validity term of a position where an id is written among the parents of step i is

        V = sum of softmax(logits)[v] over v in T(i),

    where T(i) holds the first tokens of the ids i, i + 1, ..., `most`, without those that also begin an id below i.

    Args:
        most: highest id that is looked at (`planner.max_subtasks`).
        vocabulary: width of the logits.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int, vocabulary: int) -> None:
        self._forbidden = torch.zeros(len(_CONTEXTS), most, vocabulary, dtype=torch.bool)
        for place, context in enumerate(_CONTEXTS):
            first = [_first_token(tokenizer, context, str(k)) for k in range(1, most + 1)]
            for i in range(most):
                self._forbidden[place, i, sorted({*first[i:]} - {*first[:i]})] = True

    def masses(self, logits: Tensor, steps: Sequence[int], further: Sequence[bool]) -> Tensor:
        """V at each of k positions; (k,) with gradient.

        Args:
            logits: (k, vocabulary).
            steps: index of the step that depends, from 0.
            further: whether an id stands before this one in the list.
        """
        places = torch.tensor(further, dtype=torch.long), torch.tensor(steps, dtype=torch.long)
        return (logits.softmax(-1) * self._forbidden[places].to(logits.device)).sum(-1)


def _first_token(tokenizer: PreTrainedTokenizerBase, context: str, text: str) -> int:
    encoded = tokenizer(context + text + "]", add_special_tokens=False, return_offsets_mapping=True)
    at = token_at(encoded["offset_mapping"], len(context))
    return int(encoded["input_ids"][at])


def token_at(offsets: Sequence[tuple[int, int]], character: int) -> int:
    """Index of the token that covers a character.

    Args:
        offsets: [start, end) of each token.
    """
    return next(i for i, (start, end) in enumerate(offsets) if start <= character < end)
