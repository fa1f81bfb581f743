"""Graphs that ONNX Runtime computes, with their weights from safetensors: one file of weights serves torch, too."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import deserialize

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
