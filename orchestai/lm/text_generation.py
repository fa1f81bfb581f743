"""Continues prompts with text, up to a stop string, with any causal language model of transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.lm.caches.padded_cache import PromptReader
from orchestai.lm.caches.prefix_store import PrefixStore
from orchestai.lm.decoding import ActiveRow, decode, inverse_sample, step_randoms
from orchestai.lm.loading import end_ids


class CancelledDecodingError(Exception):
    """Decoding was told to stop."""


@dataclass(frozen=True)
class Row:
    """One reply wanted: token ids of the prompt, and how to decode.

    Attributes:
        beginning: how many of the prompt's first tokens other prompts have, too (worked examples).
    """

    prompt: tuple[int, ...]
    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int
    beginning: int = 0


@dataclass(frozen=True)
class Reply:
    """`text` ends before the first stop string; `tokens` counts all generated; `elapsed_ms` since the batch began.

    `truncated`: the last token that it may have came before its end.
    """

    text: str
    tokens: int
    elapsed_ms: float
    truncated: bool


class Decoder:
    """Owns a model. Not thread-safe: one batch at a time.

    Args:
        kept_prefixes: most beginnings of prompts (worked examples) that are kept for later batches.
        store: where later processes find them; None keeps them in memory alone.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        kept_prefixes: int = 8,
        store: PrefixStore | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._reader = PromptReader(model, kept_prefixes, store)
        self._end_ids = end_ids(model, tokenizer)

    @torch.inference_mode()
    def decode(
        self,
        rows: Sequence[Row],
        finished: Callable[[int, Reply], None],
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Decode all rows, calling `finished(index of the row, reply)` for each as soon as it is done.

        Args:
            rows: at least one; rows that begin alike are best decoded together.

        Raises:
            CancelledDecodingError: `cancelled` became true.
            torch.OutOfMemoryError: the batch is too large; rows reported as finished stay finished.
        """
        began = time.perf_counter()

        def pick(logits: Tensor, active: Sequence[ActiveRow]) -> Tensor:
            if cancelled():
                raise CancelledDecodingError
            return _pick(logits, active, rows)

        def remaining(active: Sequence[ActiveRow]) -> list[int]:
            return self._report(active, rows, began, finished)

        for beginning in {row.prompt[: row.beginning] for row in rows}:
            self._reader.prepare(beginning)
        cache, logits = self._reader.read([row.prompt for row in rows])
        active = [ActiveRow.seeded(i, row.max_new_tokens, row.seed) for i, row in enumerate(rows)]
        decode(cache, logits, active, pick, remaining)

    def forget(self) -> None:
        """Drop the kept beginnings (to free memory)."""
        self._reader.forget()

    def _report(
        self, active: Sequence[ActiveRow], rows: Sequence[Row], began: float, finished: Callable[[int, Reply], None]
    ) -> list[int]:
        """Report the rows that ended with their newest token; the positions in `active` of the others."""
        texts = self._tokenizer.batch_decode([row.written for row in active], skip_special_tokens=True)
        staying = []
        for position, (row, text) in enumerate(zip(active, texts, strict=True)):
            stops = [place for stop in rows[row.index].stop if (place := text.find(stop)) >= 0]
            ended = bool(stops) or row.written[-1] in self._end_ids
            if ended or len(row.written) >= row.limit:
                elapsed_ms = (time.perf_counter() - began) * 1000
                finished(row.index, Reply(text[: min(stops, default=None)], len(row.written), elapsed_ms, not ended))
            else:
                staying.append(position)
        return staying


def _pick(logits: Tensor, active: Sequence[ActiveRow], rows: Sequence[Row]) -> Tensor:
    """The likeliest tokens, or at a temperature the inverse of the distributions at the rows' random numbers."""
    tokens = logits.argmax(dim=-1)
    sampled = [i for i, row in enumerate(active) if rows[row.index].temperature > 0]
    if sampled:
        drawn = [active[i] for i in sampled]
        # The same numbers in float32 first: what they choose is kept in recordings.
        temperatures = logits.new_tensor([rows[row.index].temperature for row in drawn]).double()
        randoms = step_randoms(drawn).to(logits).double()
        cumulated = torch.softmax(logits[sampled].double() / temperatures[:, None], dim=-1).cumsum(dim=-1)
        tokens[sampled] = inverse_sample(cumulated, randoms)
    return tokens
