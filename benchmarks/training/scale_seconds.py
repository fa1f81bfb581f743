"""Fits the seconds of sampling and learning on one core (docs/scale.md), and checks them against other models.

    OMP_NUM_THREADS=1 python benchmarks/training/scale_seconds.py --json docs/results/scale_seconds.json

Models of Llama's form without training sample rows of different prompts, and then learn from them once, in float32, by
the same code as phase 2. What is fitted is the device: products and bytes per second, and the least time of a layer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from orchestai.lm.causal import CausalPolicy
from orchestai.storage import artifacts
from orchestai.training.scale import DEVICES, Device, Learning, Shape, Update, seconds

PROMPT, COMPLETION, AT_A_TIME, REPEATS = 64, 32, 8, 3
SHAPES = ((64, 4, 8), (128, 2, 8), (128, 8, 16), (256, 4, 8), (256, 8, 8), (384, 4, 8), (512, 4, 8))
"""Width, layers and rows of the points that are fitted."""
HELD_OUT = ((192, 6, 16), (384, 8, 16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    measure(*SHAPES[0])  # what is made on the first use is made
    points = [measure(*point) for point in SHAPES]
    device = fit(points)
    figures = {
        "fitted": {"flops": device.flops, "bytes_per_s": device.bytes_per_s, "token_s": device.token_s},
        "points": [beside(point, device) for point in points],
        "held_out": [beside(measure(*point), device) for point in HELD_OUT],
        "versions": artifacts.versions(),
    }
    text = json.dumps(figures, indent=1)
    if args.json:
        args.json.write_text(text + "\n")
    print(text)


def measure(hidden: int, layers: int, rows: int) -> dict[str, Any]:
    """Medians of the processor's seconds of an update, by stage: others may use the machine."""
    model = LlamaForCausalLM(_config(hidden, layers))
    policy = CausalPolicy(model, frozenset())
    prompts = [torch.randint(1, 2048, (PROMPT,)) for _ in range(rows)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    starts = range(0, rows, AT_A_TIME)
    written = []

    def sample() -> None:
        written[:] = [
            completion
            for start in starts
            for completion in policy.sample(
                prompts[start : start + AT_A_TIME], range(AT_A_TIME), temperature=1.0, max_new_tokens=COMPLETION
            )
        ]

    def learn() -> None:
        for start in starts:
            part = slice(start, start + AT_A_TIME)
            policy.score(prompts[part], [one.ids for one in written[part]], 1.0).logp.mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return {
        "hidden": hidden,
        "layers": layers,
        "rows": rows,
        "sampling": _median(sample),
        "learning": _median(learn),
    }


def _config(hidden: int, layers: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=2048,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        tie_word_embeddings=True,
    )


def _median(work: Callable[[], None]) -> float:
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def fit(points: list[dict[str, Any]]) -> Device:
    """By relative error. A step of sampling takes the larger of two times, so each point says which, and all are fitted
    again, until none changes its mind."""
    times = [1 / DEVICES["cpu"].flops, 1 / DEVICES["cpu"].bytes_per_s, DEVICES["cpu"].token_s]
    for _ in range(20):
        rows, measured = [], []
        for point in points:
            shape = Shape.of(_config(point["hidden"], point["layers"]))
            products = 2 * shape.parameters * point["rows"] * (PROMPT + COMPLETION)
            steps = COMPLETION * -(-point["rows"] // AT_A_TIME)
            reads = times[1] * 4 * shape.parameters > times[2] * shape.layers
            rows += [
                [products, steps * 4 * shape.parameters * reads, steps * shape.layers * (not reads)],
                [3 * products, 0, 0],
            ]
            measured += [point["sampling"], point["learning"]]
        scaled = np.array(rows) / np.array(measured)[:, None]
        found, *_ = np.linalg.lstsq(scaled, np.ones(len(measured)), rcond=None)
        times = [float(new) if new > 0 else old for new, old in zip(found, times, strict=True)]
    return Device("one core of this machine", 16, 1 / times[0], 1 / times[1], times[2], DEVICES["cpu"].link)


def beside(point: dict[str, Any], device: Device) -> dict[str, Any]:
    """The point with what `plan-run` would say of it, and by how much that is more."""
    shape = Shape.of(_config(point["hidden"], point["layers"]))
    update = Update(point["rows"], AT_A_TIME, PROMPT, COMPLETION, AT_A_TIME * (PROMPT + COMPLETION), 0, 0.0, 1)
    said = seconds(shape, Learning("nothing", 4), update, device)
    stages = ("sampling", "learning")
    return point | {
        "predicted": {stage: said[stage] for stage in stages},
        "relative_error": {stage: said[stage] / point[stage] - 1 for stage in stages},
    }


if __name__ == "__main__":
    main()
