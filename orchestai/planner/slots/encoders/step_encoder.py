"""What a frozen language model knows of steps, read from an instruction that it is shown twice.

A causal model has seen the words before a word alone. Shown the text again, it has seen all of it: the second reading
of a step depends on the task and on every other step ("echo embeddings", Springer et al. 2024, arXiv 2402.15449).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from orchestai.errors import UserError
from orchestai.lm import weights
from orchestai.lm.loading import quietly
from orchestai.planner.slots.encoders.encoder import UnreadableTextError
from orchestai.storage.byte_store import ByteStore

_KEY = "planner.linker.language_model"
_BETWEEN = "\n\n"
_CACHED = 20_000
_MAX_STORED_BYTES = 1 << 30
_VERSION = 1
"""Grows when something else is read of the same steps, so that what was kept before is not taken for it."""

Spans: TypeAlias = "tuple[tuple[int, int], ...]"
logger = logging.getLogger(__name__)


class StepEncoder:
    """A frozen causal language model. Not a module of the planner: its weights are neither trained nor stored there.

    Instructions are read one at a time, so that what is read never depends on a batch. What was read of the latest
    20,000 (some 14 kB each with SmolLM2 and six steps) is kept in memory.

    Args:
        name: `smollm2-135m`, or a name or path of a model of Llama's kind with a fast tokenizer.
        layer: the layer whose output is read; later ones are not computed.
        cache_dir: where the packaged model is converted to.
        store: keeps what was read for later processes, under all that it depends on: the tokens, the steps' places
            among them, the model's weights and configuration, and what computes with them.

    Attributes:
        width: numbers per step: of its last token, and of the mean of its tokens.

    Raises:
        UserError: there is no such model or layer.
    """

    def __init__(self, name: str, layer: int, cache_dir: Path, store: ByteStore | None = None) -> None:
        self.name = name
        self._store = store
        path = weights.source(name, cache_dir, _KEY)
        dtype = weights.choose_dtype("auto", torch.device("cpu"))
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(path)
            with quietly():
                self._model = AutoModel.from_pretrained(path, dtype=dtype).eval().requires_grad_(False)
        except (OSError, ValueError) as error:
            raise UserError(f"{_KEY}: cannot load {name!r}: {str(error).strip().splitlines()[0]}") from None
        if not self._tokenizer.is_fast:
            raise UserError(f"{_KEY}: {name!r} has no fast tokenizer, which the offsets of tokens need")
        layers = getattr(self._model, "layers", None)
        if not isinstance(layers, nn.ModuleList) or not hasattr(self._model, "norm"):
            raise UserError(f"{_KEY}: {name!r} is no causal language model of Llama's kind")
        if layer > len(layers):
            raise UserError(f"{_KEY}: {name!r} has {len(layers)} layers, but layer {layer} is read")
        del layers[layer:]
        self._model.norm = nn.Identity()
        self.width: int = 2 * self._model.config.hidden_size
        self._known = lru_cache(maxsize=_CACHED)(self._read)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the weights that are used, as 16 hexadecimal digits; the same in float32 and bfloat16."""
        digest = hashlib.sha256()
        for key, tensor in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
        return digest.hexdigest()[:16]

    def read(self, instruction: str, spans: Iterable[tuple[int, int]]) -> Tensor:
        """(n, width) bfloat16 on the CPU; a row for each step.

        Args:
            spans: [start, end) character offsets of the steps in the instruction.

        Raises:
            UnreadableTextError: the instruction is too long to be read twice, or a step has no words.
        """
        return self._known(instruction, tuple((start, end) for start, end in spans))

    def _read(self, instruction: str, spans: Spans) -> Tensor:
        once = self._tokenizer(instruction, return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        ids, offsets = once["input_ids"], once["offset_mapping"]
        start = self._tokenizer.bos_token_id
        between = self._tokenizer.encode(_BETWEEN, add_special_tokens=False)
        before = [*([] if start is None else [start]), *ids, *between]
        count, context = len(before) + len(ids), self._model.config.max_position_embeddings
        if count > context:
            raise UnreadableTextError(
                f"read twice, the text has {count} tokens, but {self.name!r} (planner.linker.language_model) takes "
                f"{context}"
            )
        places = []
        for number, (first, end) in enumerate(spans, start=1):
            if not instruction[first:end].strip():
                raise UnreadableTextError(f"step {number} has no words")
            inside = [i for i, (a, b) in enumerate(offsets, start=len(before)) if a < end and b > first and b > a]
            places.append((inside[0], inside[-1] + 1))
        tokens = [*before, *ids]
        if self._store is None:
            return self._computed(tokens, places)
        key = f"{self._identity} {tokens} {places}"
        if (content := self._store.load(key)) is not None:
            return torch.frombuffer(bytearray(content), dtype=torch.bfloat16).view(len(places), self.width)
        found = self._computed(tokens, places)
        try:
            self._store.save(key, found.view(torch.int16).numpy().tobytes())
        except UserError as error:
            logger.warning("what the language model reads of given steps is not kept for later runs: %s", error)
            self._store = None
        return found

    @torch.no_grad()
    def _computed(self, tokens: list[int], places: list[tuple[int, int]]) -> Tensor:
        """(n, width) bfloat16: of the tokens [start, end) of each step the last one's output, and the mean."""
        hidden = self._model(torch.tensor([tokens], device=self._model.device), use_cache=False).last_hidden_state[0]
        rows = [torch.cat([hidden[end - 1], hidden[start:end].mean(0)]) for start, end in places]
        return torch.stack(rows).to("cpu", torch.bfloat16)

    @cached_property
    def _identity(self) -> str:
        """What decides the numbers beside the tokens: the model, and what computes with it."""
        facts = (
            *(_VERSION, self.fingerprint, self._model.config.to_diff_dict(), self._model.dtype),
            *(self._model.device.type, torch.__version__, transformers.__version__),
        )
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def __deepcopy__(self, memo: dict[int, object]) -> StepEncoder:
        """Itself: copies of a planner share the model, which never changes, and its cache."""
        return self


@cache
def open_step_encoder(name: str, layer: int, cache_dir: Path) -> StepEncoder:
    """The process's reader of that description: whoever plans with it shares its weights and what it has read.

    What it has read is also kept in `cache_dir/steps`, 1 GiB at most.

    Raises:
        UserError: as `StepEncoder`.
    """
    return StepEncoder(name, layer, cache_dir, ByteStore(cache_dir / "steps", _MAX_STORED_BYTES))
