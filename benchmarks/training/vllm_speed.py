"""How fast plans are written: the model that learns beside real vLLM, on one thread each.

    python benchmarks/training/vllm_speed.py MODEL --json FILE

MODEL is the folder of a causal language model. Groups of 8 rows share a prompt of 200 tokens and get exactly 64 more
(no token ends a row), at temperature 1, under float32 and bfloat16. The two take turns, and a measurement of each comes
first that does not count. vLLM computes as it does by default, compiled. Seconds are by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from orchestai.config import VllmConfig
from orchestai.lm import loading
from orchestai.lm.backends.base import Backend, Folders, SampleSettings
from orchestai.lm.backends.synced import LocalBackend
from orchestai.lm.backends.vllm_engine import EngineModel, VllmEngine
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.weights import read_pretrained
from orchestai.storage import artifacts

PROMPT, WRITTEN, GROUP = 200, 64, 8
ROWS = (8, 64)
ROUNDS = 3
CONTEXT = 512


async def seconds(backend: Backend, rows: int, vocabulary: int) -> float:
    """For `rows` completions, with prompts that nothing has read before."""
    groups = torch.randint(vocabulary, (rows // GROUP, PROMPT))
    prompts = [prompt for prompt in groups for _ in range(GROUP)]
    started = time.perf_counter()
    generation = await backend.generate(prompts, range(rows), SampleSettings(1.0, WRITTEN))
    taken = time.perf_counter() - started
    assert all(len(one.ids) == WRITTEN for one in generation.completions)
    return taken


async def compare(model: Path, dtype: str) -> dict[str, Any]:
    """Tokens written per second by each side, the median of `ROUNDS`, by the number of rows."""
    options = {"enable_chunked_prefill": False, "max_num_batched_tokens": 64 * PROMPT}
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(
            EngineModel(str(model), dtype, None, frozenset(), CONTEXT),
            VllmConfig(engine_options=options),
            Folders(Path(folder), "speed"),
            processes=1,
            section="model",
        )
        own, _ = read_pretrained(str(model), "MODEL", dtype=loading.DTYPES[dtype])
        sides = {"transformers": LocalBackend(CausalPolicy(own.eval(), frozenset())), "vllm": engine}
        figures: dict[str, Any] = {}
        for rows in ROWS:
            taken: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(ROUNDS + 1):
                for name, backend in sides.items():
                    taken[name].append(await seconds(backend, rows, own.config.vocab_size))
                    print(dtype, rows, name, f"{taken[name][-1]:.2f} s", flush=True)
            figures[f"{rows} rows"] = {
                name: round(rows * WRITTEN / statistics.median(rounds[1:]), 1) for name, rounds in taken.items()
            }
        await engine.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "4", "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    figures = {dtype: asyncio.run(compare(arguments.model, dtype)) for dtype in ("float32", "bfloat16")}
    import vllm

    versions = {"vllm": vllm.__version__, **artifacts.versions()}
    artifacts.write_json(arguments.json, {"tokens_per_s": figures, "versions": versions})


if __name__ == "__main__":
    main()
