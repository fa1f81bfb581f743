"""Two roles learn to share out work that neither sees the other do: a game over text with a known best reward.

python benchmarks/agents/joint_task.py --json docs/results/agents/joint_task.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from small_llama import small_llama

from orchestai.agents.joint import History, JointArgs, JointWorkflow, Judgment
from orchestai.agents.trainer import AgentTrainer
from orchestai.config.agents import AgentConfig
from orchestai.storage import artifacts
from orchestai.tasks.task import Task

LETTERS = "abcd"
SEEDS = (1, 2, 3)
T_95 = 4.303
"""Student's t for an interval of 95 % with two degrees of freedom."""
_ALPHABET = "abcdefghilrt:, "


class Share(JointWorkflow):
    """Both roles are shown the same two letters and write one each; what is wanted is that both letters are written.

    Roles that each write one of the two, whichever, are right 3 times out of 4, so 1 is only to be had by agreement.
    In a second turn each is shown both letters written and shall write the other's, which is worth as much again.
    """

    roles = ("left", "right")
    args: JointArgs

    def prompts(self, task: Task) -> Sequence[str]:
        return [f"{role}: {task.instruct_prompt}" for role in self.roles]

    async def judge(self, task: Task, history: History) -> Judgment:
        written = history[-1]
        if len(history) == 1:
            share = len(set(written) & set(task.instruct_prompt)) / 2
        else:
            share = sum(bool(old) and new == old for new, old in zip(written, history[-2][::-1], strict=True)) / 2
        return Judgment(share, success=float(share == 1))

    def transition(self, task: Task, history: History) -> Sequence[str]:
        left, right = history[-1]
        return (f"left, {left}: {right}", f"right, {right}: {left}")


@dataclass(frozen=True)
class Variant:
    """What is compared."""

    turns: int
    credit: str
    mode: str
    policies: str
    updates: int
    generations: int
    entropy_coef: float = 0.1

    @property
    def optimum(self) -> float:
        return float(self.turns)


VARIANTS = {
    "one turn, joint, aligned, separate": Variant(1, "joint", "aligned", "separate", 60, 8),
    "one turn, joint, cross, separate": Variant(1, "joint", "cross", "separate", 60, 8),
    # Crossed credit is a sum over 8 partners, so an entropy bonus of the same weight is 8 times as large.
    "one turn, joint, cross, separate, entropy by partners": Variant(1, "joint", "cross", "separate", 60, 8, 0.8),
    "one turn, joint, aligned, shared": Variant(1, "joint", "aligned", "shared", 60, 8),
    "two turns, joint, aligned, separate": Variant(2, "joint", "aligned", "separate", 80, 4),
    "two turns, outcome, aligned, separate": Variant(2, "outcome", "aligned", "separate", 80, 4),
}


def tasks() -> list[Task]:
    """All ordered pairs of letters; there are only twelve, and the same ones are trained on and judged."""
    pairs = itertools.permutations(LETTERS, 2)
    return [Task(task_id=f"{a}{b}", suite="share", instruct_prompt=f"{a}{b}") for a, b in pairs]


def save_model(folder: Path, seed: int) -> None:
    """A small Llama that knows nothing, with a token for each letter that occurs."""
    for part in small_llama(_ALPHABET, seed):
        part.save_pretrained(folder)


def configure(variant: Variant, seed: int, model: Path) -> AgentConfig:
    phase2 = {
        "loss_type": "reinforce",
        "learning_rate": 1e-3,
        "entropy_coef": variant.entropy_coef,
        "num_generations": variant.generations,
        "tasks_per_update": 12,
        "num_episodes": 12 * variant.updates,
        "eval_every": 20,
        "eval_tasks": 12,
        "micro_batch_size": 2048,
        "seed": seed,
    }
    return AgentConfig(
        agents={"policies": variant.policies, "credit": variant.credit},  # type: ignore[arg-type]
        model={"name": str(model), "max_new_tokens": 1},  # type: ignore[arg-type]
        training={"phase2_rl": phase2},  # type: ignore[arg-type]
        sandbox={"level": "process"},  # type: ignore[arg-type]
    )


def run(variant: Variant, seed: int) -> list[float]:
    """The greedy reward on all tasks, before the first update and after every twentieth."""
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "model", Path(folder) / "run"
        save_model(model, seed)
        trainer = AgentTrainer(
            Share,
            {"num_turns": variant.turns, "joint_mode": variant.mode},
            configure(variant, seed, model),
            tasks(),
            tasks(),
            output,
        )
        trainer.train()
        lines = (output / "phase2_metrics.jsonl").read_text().splitlines()
    return [row["eval_reward"] for row in map(json.loads, lines) if "eval_reward" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    options = parser.parse_args()
    results = {}
    for name in options.variants:
        variant = VARIANTS[name]
        began = time.process_time()
        curves = [run(variant, seed) for seed in options.seeds]
        last = [curve[-1] / variant.optimum for curve in curves]
        spread = statistics.stdev(last) / len(last) ** 0.5 * T_95 if len(last) == 3 else None
        results[name] = {
            **asdict(variant),
            "optimum": variant.optimum,
            "curves": curves,
            "share_of_optimum": statistics.mean(last),
            "interval_95": spread,
            "cpu_seconds": time.process_time() - began,
        }
        around = "" if spread is None else f" +- {spread:.3f}"
        print(f"{name}: {statistics.mean(last):.3f}{around} of the optimum; {[round(x, 3) for x in last]}", flush=True)
    if options.json:
        artifacts.write_json(options.json, {"versions": artifacts.versions(), "variants": results})


if __name__ == "__main__":
    main()
