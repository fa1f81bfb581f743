"""PPO over tokens: the first token decides, and its reward comes after 384 of them.

    python benchmarks/agents/ppo_tokens.py --json docs/results/ppo_tokens.json

The role reads one of four letters and writes 384 tokens. An episode is worth 1 if the first token is the one that goes
with the letter (the best possible; 1/8 by chance) and none of the 384 ends the text, and 0 otherwise; what it writes
after the first does not matter, and it has been taught to write dots. The model is a small Llama without any training
but that lesson, in which all eight answers were equally frequent.

What is compared is how a reward reaches the first token. `per decision` discounts and averages over tokens as over a
plan's few decisions (gamma 0.99, lambda 0.95) and teaches the critic at the policy's rate, as phase 2 did before it had
defaults for tokens. The others are those defaults, some with one thing changed (`--settings`).

A curve is the mean reward of the attempts of each update, sampled at temperature 1.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from small_llama import END, small_llama

from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.agents import AgentConfig
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.types import Episode

ASKED, ANSWERS, FILLER = "abcd", "ABCDEFGH", "."
LENGTH = 384
RATE = 1e-3
TASKS_PER_UPDATE = 8
SEEDS = (1, 2, 3)
T_95 = 4.303
"""Student's t for an interval of 95 % with two degrees of freedom."""
SETTINGS: dict[str, dict[str, Any]] = {
    "per decision": {"gamma": 0.99, "lambda_gae": 0.95, "value_learning_rate": RATE},
    "gamma 0.99, lambda 0.95": {"gamma": 0.99, "lambda_gae": 0.95},
    "critic at the policy's rate": {"value_learning_rate": RATE},
    "lambda 0.95": {"lambda_gae": 0.95},
    "defaults": {},
}


class Answer(AgentWorkflow):
    """One role that answers with its first token."""

    roles = ("speaker",)

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        said = await context.conversation("speaker").ask(task.instruction)
        right = float(said.text[:1] == task.answers[0] and not said.ended)
        return context.episode(right, {"success": right})


def tasks(name: str, count: int, seed: int) -> list[Task]:
    rng = random.Random(f"{name}/{seed}")
    asked = [rng.choice(ASKED) for _ in range(count)]
    return [
        Task(
            task_id=f"{name}/{i}",
            suite="first-token",
            split=name,
            instruct_prompt=letter,
            answers=(ANSWERS[ASKED.index(letter)],),
        )
        for i, letter in enumerate(asked)
    ]


def save_model(folder: Path, seed: int, steps: int) -> None:
    """A small Llama that has read `steps` batches of a letter, any of the answers, and dots."""
    model, tokenizer = small_llama([*ASKED, *ANSWERS, FILLER], seed, context=2 * LENGTH)
    tokenizer.save_pretrained(folder)
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        texts = [f"{rng.choice(ASKED)}{END}{rng.choice(ANSWERS)}{FILLER * (LENGTH - 1)}" for _ in range(4)]
        ids = torch.tensor(tokenizer(texts, add_special_tokens=False).input_ids)
        logits = model(input_ids=ids).logits[:, 1:-1]  # the role reads two tokens
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 2:], reduction="none")
        losses.sum(1).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def configure(changes: dict[str, Any], seed: int, model: Path, updates: int) -> AgentConfig:
    phase2 = {
        "algorithm": "PPO",
        "learning_rate": RATE,
        "entropy_coef": 0.0,
        "num_generations": 8,
        "tasks_per_update": TASKS_PER_UPDATE,
        "num_episodes": TASKS_PER_UPDATE * updates,
        "num_minibatches": 4,
        "eval_every": updates,
        "eval_tasks": 4,
        "micro_batch_tokens": 4096,
        "seed": seed,
        **changes,
    }
    return AgentConfig(
        model={"name": str(model), "max_new_tokens": LENGTH},  # type: ignore[arg-type]
        training={"phase2_rl": phase2},  # type: ignore[arg-type]
        sandbox={"level": "process"},  # type: ignore[arg-type]
    )


def run(changes: dict[str, Any], seed: int, updates: int, warm_start: int) -> list[float]:
    """The mean reward of each update's attempts, from before any learning."""
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "model", Path(folder) / "run"
        save_model(model, seed, warm_start)
        data = tasks("train", TASKS_PER_UPDATE * updates, seed), tasks("validation", 4, seed)
        AgentTrainer(Answer, {}, configure(changes, seed, model, updates), *data, output).train()
        rows = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return [row["reward"] for row in rows if "reward" in row]


def summary(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and half the 95 % interval where there are three values."""
    half = statistics.stdev(values) / len(values) ** 0.5 * T_95 if len(values) == 3 else None
    return statistics.mean(values), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["per decision", "defaults"])
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--warm-start", type=int, default=150, help="batches of the lesson")
    options = parser.parse_args()
    table = Table("PPO", "first 3 updates", "last 3 updates", "all updates", title="reward after 384 tokens, best is 1")
    results: dict[str, Any] = {}
    for name in options.settings:
        began = time.process_time()
        curves = [run(SETTINGS[name], seed, options.updates, options.warm_start) for seed in options.seeds]
        figures = {
            "first": summary([statistics.mean(curve[:3]) for curve in curves]),
            "last": summary([statistics.mean(curve[-3:]) for curve in curves]),
            "all": summary([statistics.mean(curve) for curve in curves]),
        }
        results[name] = {**figures, "curves": curves, "cpu_seconds": time.process_time() - began}
        shown = [f"{mean:.3f}" + ("" if half is None else f" +- {half:.3f}") for mean, half in figures.values()]
        table.add_row(name, *shown)
    Console(width=120).print(table)
    if options.json:
        found = {"updates": options.updates, "warm_start": options.warm_start, "settings": results}
        artifacts.write_json(options.json, {"versions": artifacts.versions(), "seeds": list(options.seeds), **found})


if __name__ == "__main__":
    main()
