"""Encoders other than the shipped one, by `transformers`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModel, AutoTokenizer

from orchestai.errors import UserError
from orchestai.lm import local_models
from orchestai.lm.loading import quietly


class TransformersLayers:
    """`EncoderLayers` of an encoder's name or path, with a fast tokenizer.

    Raises:
        UserError: there is no such encoder, or it has no fast tokenizer.
    """

    def __init__(self, name: str) -> None:
        path = local_models.locate(name, "planner.encoder")
        try:
            with quietly():
                tokenizer = AutoTokenizer.from_pretrained(path)
                self._model = AutoModel.from_pretrained(path, dtype=torch.float32).eval().requires_grad_(False)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"planner.encoder: cannot load {name!r}: {reason}") from None
        if not tokenizer.is_fast:
            raise UserError(f"planner.encoder: {name!r} has no fast tokenizer, which the offsets of tokens need")
        self.tokenizer = tokenizer.backend_tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        config = self._model.config
        self.count: int = config.num_hidden_layers
        self.width: int = config.hidden_size
        limit: int | None = getattr(config, "max_position_embeddings", None)
        self.positions = limit and limit - _reserved_positions(self._model)
        self.fingerprint = _digest(self._model)

    @torch.inference_mode()
    def read(self, ids: NDArray[np.int64], layers: Sequence[int]) -> list[NDArray[np.float32]]:
        read = self._model(torch.from_numpy(ids), output_hidden_states=True).hidden_states
        return [read[layer].numpy() for layer in layers]


def _digest(model: nn.Module) -> str:
    """Of all weights but the pooler, which nobody asks, and which is chosen by chance where a file has none."""
    digest = hashlib.sha256()
    for key, tensor in sorted(model.state_dict().items()):
        if not key.startswith("pooler."):
            digest.update(key.encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _reserved_positions(model: nn.Module) -> int:
    """Positions that no token has: encoders of RoBERTa's kind count from behind the one for padding."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1
