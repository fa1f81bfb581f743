"""The files of a base planner: its weights, and a card that says what they were learned from and for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from orchestai.config.planner import NOTHING, PlannerConfig
from orchestai.errors import UserError

_SCALE = ".scale"
_DTYPES = {"I8": np.int8, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_, "F16": np.float16, "F32": np.float32}


class OnnxGraph:
    """A graph whose weights are not in its file.

    It computes on as many threads as `OMP_NUM_THREADS` says, by default on all cores; they sleep while they wait.

    Args:
        path: of the graph.
        weights: by the names that the graph has for them; all of them, and no others.
    """

    def __init__(self, path: Path, weights: Mapping[str, NDArray[Any]]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Further optimizations take longer to make than they save, and slow MiniLM down.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
        options.add_external_initializers(list(weights), values)
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

        self._inputs = [given.name for given in self._session.get_inputs()]
        self._outputs = [made.name for made in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
        """The outputs of these names, or all.

        Args:
            inputs: those of the graph, and maybe others, which it does not take.
        """
        wanted = list(outputs) or self._outputs
        return dict(zip(wanted, self._session.run(wanted, {name: inputs[name] for name in self._inputs}), strict=True))


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file; float32 where they are kept with fewer bits.

    A matrix (in, out) may be int8, with an array of its name and `.scale` of (in / k, out): what k numbers of a column
    are multiplied with.

    Raises:
        OSError, SafetensorError: it cannot be read.
    """
    found = {name: _array(**tensor) for name, tensor in deserialize(path.read_bytes())}
    for name in [name for name in found if name.removesuffix(_SCALE) in found.keys() - {name}]:
        scale, rounded = found.pop(name), found[name.removesuffix(_SCALE)]
        blocks = rounded.reshape(len(scale), -1, scale.shape[1]) * scale[:, None]
        found[name.removesuffix(_SCALE)] = blocks.reshape(rounded.shape)
    return found


def _array(dtype: str, shape: Sequence[int], data: bytearray) -> NDArray[Any]:
    if dtype == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    array: NDArray[Any] = np.frombuffer(data, _DTYPES[dtype]).reshape(shape)
    return array.astype(np.float32) if dtype == "F16" else array


SHIPPED = "shipped"
WEIGHTS, CARD = "base.safetensors", "base.json"
SHIPPED_FOLDER = Path(__file__).parent / "shipped"
SHAPES = (
    "max_subtasks",
    "overlapping_spans",
    "any_length",
    "d_model",
    "num_layers",
    "num_heads",
)
"""Keys of `planner` that the base's weights were made for."""


def base_folder(base: str) -> Path:
    """Where a base planner lies that `planner.base` names."""
    return SHIPPED_FOLDER if base == SHIPPED else Path(base)


def read_card(base: str) -> dict[str, Any]:
    """What a base planner learned from, how it does, and the shapes of its weights.

    Raises:
        UserError: there is no such base planner.
    """
    path = base_folder(base) / CARD
    try:
        card = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"planner.base: {base}: no base planner there ({path}: {error}); train one with `orchestai train-base`, or "
            f"set planner.base={NOTHING}"
        ) from None
    return dict(card)


def check_base(config: PlannerConfig, encoder_fingerprint: str) -> None:
    """See that the base planner fits a planner of this configuration, with an encoder of this fingerprint.

    Raises:
        UserError: there is no such base planner, or it was made for other shapes or another encoder.
    """
    base, card = config.base, read_card(config.base)
    for key in SHAPES:
        if getattr(config, key) != card["planner"][key]:
            raise UserError(
                f"planner.{key}: {getattr(config, key)}, but the base planner {base!r} has {card['planner'][key]}; "
                f"leave it out, or set planner.base={NOTHING} to learn language from nothing"
            )
    if encoder_fingerprint != card["encoder_fingerprint"]:
        raise UserError(f"planner.base: {base}: made for an encoder with other weights than here")


def read_base(base: str) -> dict[str, NDArray[Any]]:
    """The weights of a base planner, by their names in `PlannerModel`.

    Raises:
        UserError: they cannot be read.
    """
    path = base_folder(base) / WEIGHTS
    try:
        return read_weights(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"planner.base: {path}: not readable ({error}); install again, or train one") from None


def other_version_of(base: str) -> UserError:
    """That a base planner's weights are not those of this program's planner."""
    return UserError(f"planner.base: {base_folder(base) / WEIGHTS}: of another version of this program; train it again")


def digest_of(base: str) -> str:
    """sha256 of a base planner's weights, as 16 hexadecimal digits; empty for `none`.

    Raises:
        UserError: they cannot be read.
    """
    if base == NOTHING:
        return ""
    path = base_folder(base) / WEIGHTS
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UserError(f"planner.base: {path}: cannot read: {error.strerror or error}") from None
