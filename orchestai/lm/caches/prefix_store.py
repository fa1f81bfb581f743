"""Keys and values of long beginnings of prompts on disk, so that a process that starts does not compute them anew."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedModel

from orchestai.errors import UserError
from orchestai.storage import artifacts

KeyValues: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""Per layer: keys and values, each (batch, heads, tokens, head_dim)."""

_FEWEST_TOKENS = 256
_MOST_BYTES = 1 << 28
_FILES = 16
logger = logging.getLogger(__name__)


class PrefixStore:
    """A folder of files, one per beginning; the latest 16 are kept.

    A file is found again by the token ids, the model and the versions of what computes with it. Beginnings of fewer
    than 256 tokens are not worth a file, nor are those of models whose keys and values take more than 256 MiB, or that
    are computed on a GPU.

    Args:
        model: must not be trained while the store is in use.
    """

    def __init__(self, folder: Path, model: PreTrainedModel) -> None:
        self._folder = folder
        self._on_cpu = model.device.type == "cpu"
        self._model = _fingerprint(model) if self._on_cpu else ""

    def suits(self, ids: tuple[int, ...]) -> bool:
        """Whether it is for beginnings like this one."""
        return self._on_cpu and len(ids) >= _FEWEST_TOKENS

    def load(self, ids: tuple[int, ...]) -> KeyValues | None:
        """What was saved for these token ids; None where nothing was."""
        path = self._path(ids)
        try:
            tensors = load_file(path)
            return [(tensors[f"{layer}.keys"], tensors[f"{layer}.values"]) for layer in range(len(tensors) // 2)]
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError, KeyError) as error:
            logger.warning("%s cannot be read (%s); it is made anew", path, error)
            return None

    def save(self, ids: tuple[int, ...], layers: KeyValues) -> None:
        """Keep what was computed for these token ids; where it cannot be written, that is said and nothing is lost."""
        if sum(keys.nbytes + values.nbytes for keys, values in layers) > _MOST_BYTES:
            return
        parts = {"keys": 0, "values": 1}
        tensors = {
            f"{layer}.{part}": states[place].contiguous()
            for layer, states in enumerate(layers)
            for part, place in parts.items()
        }
        try:
            artifacts.write_bytes(self._path(ids), save(tensors))
            for path in sorted(self._folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)[:-_FILES]:
                path.unlink(missing_ok=True)
        except (UserError, OSError) as error:
            logger.warning("worked examples are read anew by every process: %s", error)

    def _path(self, ids: tuple[int, ...]) -> Path:
        return self._folder / f"{hashlib.sha256(f'{self._model} {ids}'.encode()).hexdigest()[:24]}.safetensors"


def _fingerprint(model: PreTrainedModel) -> str:
    """Of the model's configuration, a piece of each of its weights, and the versions of what computes with them."""
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__} {model.config}".encode())
    for name, weight in model.state_dict().items():
        piece = weight.flatten()[:64].float()
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} {piece.tolist()}".encode())
    return digest.hexdigest()
