"""Fits the memory that learning keeps (docs/scale.md), and checks it against a model that the fit has not seen.

    python benchmarks/training/scale.py --json docs/results/scale.json

Models of Llama's form without training read rows in float32; autograd's hooks count the numbers that it keeps for the
backward pass.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from orchestai.storage import artifacts

TOKENS = 112
SHAPES = ((64, 2, 8, 4), (128, 4, 8, 2), (128, 4, 32, 4), (256, 4, 16, 3), (256, 8, 8, 2), (384, 6, 16, 4))
"""Width, layers, rows and inner widths per width of the points that are fitted."""
HELD_OUT = (512, 8, 24, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    points = [measure(*shape) for shape in SHAPES]
    held_out = measure(*HELD_OUT)
    fitted = fit(points)
    predicted = predict(held_out, fitted)
    figures = {
        "fitted": fitted,
        "points": points,
        "held_out": held_out,
        "predicted": predicted,
        "relative_error": predicted / held_out["saved_per_token"] - 1,
        "versions": artifacts.versions(),
    }
    text = json.dumps(figures, indent=2)
    if args.json:
        args.json.write_text(text + "\n")
    print(text)


def measure(hidden: int, layers: int, rows: int, inner: int) -> dict[str, float]:
    """The numbers kept per token."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=2048,
            hidden_size=hidden,
            intermediate_size=inner * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            tie_word_embeddings=True,
        )
    )
    tokens = torch.randint(1, 2048, (rows, TOKENS))
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, tuple[torch.Tensor, int]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = tensor, storage.nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(tokens, labels=tokens)
    saved = sum(numbers for _, numbers in kept.values()) / tokens.numel()
    return {"hidden": hidden, "layers": layers, "intermediate": inner * hidden, "rows": rows, "saved_per_token": saved}


def fit(points: list[dict[str, float]]) -> dict[str, float]:
    """By relative error, since the points differ by factors of ten."""
    features = [[p["layers"] * p["hidden"], p["layers"] * p["intermediate"], 2048.0] for p in points]
    hidden, intermediate, vocabulary = least(features, [p["saved_per_token"] for p in points])
    return {"hidden": hidden, "intermediate": intermediate, "vocabulary": vocabulary}


def least(features: list[list[float]], measured: list[float]) -> list[float]:
    scaled = np.array(features) / np.array(measured)[:, None]
    solution, *_ = np.linalg.lstsq(scaled, np.ones(len(measured)), rcond=None)
    return [float(value) for value in solution]


def predict(point: dict[str, float], fitted: dict[str, float]) -> float:
    inside = fitted["hidden"] * point["hidden"] + fitted["intermediate"] * point["intermediate"]
    return point["layers"] * inside + fitted["vocabulary"] * 2048


if __name__ == "__main__":
    main()
