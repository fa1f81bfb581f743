"""How much memory two agents of one model need, by how they share its weights.

python benchmarks/agents/memory.py --json docs/results/agents/memory.json

Each way of sharing is a process of its own, which trains two roles for two updates and saves them as every run does.
Counted is by how much its resident memory (the kernel's peak, VmHWM) grows over that, after a first run with a model
of a few thousand weights has loaded all libraries.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.agents import AgentConfig
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.types import Episode

MODES = ("separate", "shared", "adapter")
TINY = {"hidden": 512, "layers": 8, "heads": 8}
"""34 million weights."""
MIB = 2**20


class Pair(AgentWorkflow):
    """Two roles say something, one after the other."""

    roles = ("first", "second")

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        acts = [await context.conversation(role).ask(task.instruction) for role in self.roles]
        return context.episode(float(sum(map(ord, acts[0].text + acts[1].text)) % 7))


def resident(what: str) -> int:
    """Bytes: `VmRSS`, now, or `VmHWM`, the most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {what}")


def train(mode: str, model: str, tiny: dict[str, int]) -> int:
    """Train and save two agents; the bytes of their weights on the disk."""
    tasks = [Task(task_id=str(i), suite="pair", instruct_prompt="Say something.") for i in range(3)]
    config = AgentConfig(
        agents={"workflow": "memory:Pair", "policies": mode},
        model={"name": model, "tiny": tiny, "max_new_tokens": 8},
        training={
            "phase2_rl": {"num_episodes": 4, "tasks_per_update": 2, "num_generations": 2, "micro_batch_size": 1},
        },
        sandbox={"level": "process", "workers": 1},
    )
    with tempfile.TemporaryDirectory() as folder:
        AgentTrainer(Pair, config=config, train_dataset=tasks[:2], val_dataset=tasks[2:], output_dir=folder).train()
        return sum(path.stat().st_size for path in (Path(folder) / "phase2_last").rglob("*.safetensors"))


def measure(mode: str, model: str) -> dict[str, Any]:
    """In this process."""
    train(mode, "tiny", {"hidden": 16, "layers": 1, "heads": 2})
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    saved = train(mode, model, TINY)
    return {"mode": mode, "peak_bytes": resident("VmHWM") - before, "before_bytes": before, "saved_bytes": saved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", help="tiny (34 million weights), smollm2-135m, or another name")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", choices=MODES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure, asked.model)))
        return
    found = []
    for mode in MODES:
        command = [sys.executable, __file__, "--measure", mode, "--model", asked.model]
        found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    table = Table("agents.policies", "peak, MiB", "of separate", "saved, MiB", title=f"two agents of {asked.model}")
    for row in found:
        row["share"] = row["peak_bytes"] / found[0]["peak_bytes"]
        table.add_row(
            row["mode"], f"{row['peak_bytes'] / MIB:.0f}", f"{row['share']:.2f}", f"{row['saved_bytes'] / MIB:.1f}"
        )
    Console().print(table)
    if asked.json:
        tiny = {"tiny": TINY} if asked.model == "tiny" else {}
        artifacts.write_json(
            asked.json, {"model": asked.model, **tiny, "modes": found, "versions": artifacts.versions()}
        )


if __name__ == "__main__":
    main()
