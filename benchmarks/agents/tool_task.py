"""A role learns to ask a tool and to repeat what it said: two turns, a known best reward, several rules of credit.

    python benchmarks/agents/tool_task.py --json docs/results/agents/tool_task.json

The role reads a key, and must answer with its value. Values are drawn anew for every task, so only the tool knows them:
`<find>key</find>` tells the key's value, and `<answer>value</answer>` is right or wrong. An episode is worth 1 if the
answer is right (the best possible, and 1/16 by guessing); a turn is worth 1 if it found the value.

The model is a small Llama without any training but a short warm start on scripted dialogues of the right form. Of the
keys and of the values in them one in eight is right, three are drawn at random, and half are the first of all, whatever
was asked: a habit to be unlearned. All rules start from the same weights and get as many episodes.

A curve is the mean reward of the attempts of each update, sampled at temperature 1 on tasks that were not trained on
before (every task occurs once). Beside it stand greedy attempts at held-out tasks, before and after.
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
from small_llama import END, UNKNOWN, small_llama

from orchestai.agents.conversation import Act
from orchestai.agents.tools import ToolResult, use_tools
from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.agents import AgentConfig
from orchestai.rewards.answers import tagged_answer
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.types import Episode

KEYS, VALUES = "abcdefghijklmnop", "ABCDEFGHIJKLMNOP"
RULES = ("turn", "outcome", "return_to_go")
SEEDS = (1, 2, 3)
T_95 = 4.303
"""Student's t for an interval of 95 % with two degrees of freedom."""
_TAGS = ("<find>", "</find>", "<answer>", "</answer>")


class Find:
    """Tells the value of a key; one per task."""

    name = "find"
    description = "Tells the value of a key."
    parameters: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"key": {"type": "string", "description": "The key."}},
        "required": ["key"],
    }

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    async def __call__(self, key: str) -> str:
        return self._values.get(key, UNKNOWN)


class Lookup(AgentWorkflow):
    """Ask, then answer."""

    roles = ("seeker",)

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        seeker = context.conversation("seeker")
        seeker.tell(task.instruction)
        found: list[bool] = []

        def reward(act: Act, results: Sequence[ToolResult]) -> None:
            found.append(results[0].text == task.answers[0])
            act.reward = float(found[-1])

        last = await use_tools(seeker, [Find(task.details["values"])], max_calls=1, describes=False, observe=reward)
        right = float(tagged_answer(last.text) == task.answers[0])
        return context.episode(right, {"success": right, "found": float(any(found)), "calls": len(found)})


def tasks(name: str, count: int, seed: int) -> list[Task]:
    rng = random.Random(f"{name}/{seed}")
    made = []
    for i in range(count):
        values = dict(zip(KEYS, rng.sample(VALUES, len(KEYS)), strict=True))
        key = rng.choice(KEYS)
        made.append(
            Task(
                task_id=f"{name}/{i}",
                suite="lookup",
                split=name,
                instruct_prompt=key,
                answers=(values[key],),
                details={"values": values},
            )
        )
    return made


def save_model(folder: Path, seed: int, steps: int, heads: int = 4) -> None:
    """A small Llama that has read `steps` batches of scripted dialogues."""
    model, tokenizer = small_llama(KEYS + VALUES, seed, _TAGS, heads=heads)
    tokenizer.save_pretrained(folder)
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        ids = torch.tensor(tokenizer([_dialogue(rng) for _ in range(64)], add_special_tokens=False).input_ids)
        spoken = ids.clone()
        spoken[:, :2] = -100  # what the role reads: the key, and what the tool says
        spoken[:, 6:8] = -100
        model(input_ids=ids, labels=spoken).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def _dialogue(rng: random.Random) -> str:
    def choose(right: str, choices: str) -> str:
        return rng.choice([right, *rng.choices(choices, k=3), *4 * choices[0]])

    key, value = rng.choice(KEYS), rng.choice(VALUES)
    asked, said = choose(key, KEYS), choose(value, VALUES)
    return f"{key}{END}<find>{asked}</find>{END}{value}{END}<answer>{said}</answer>{END}"


def configure(rule: str, seed: int, model: Path, updates: int) -> AgentConfig:
    phase2 = {
        "loss_type": "dr_grpo",
        "learning_rate": 1e-3,
        "entropy_coef": 0.0,
        "num_generations": 8,
        "tasks_per_update": 16,
        "num_episodes": 16 * updates,
        "eval_every": updates,
        "eval_tasks": 64,
        "micro_batch_size": 2048,
        "flat_patience": updates,
        "seed": seed,
    }
    return AgentConfig(
        agents={"credit": rule},  # type: ignore[arg-type]
        model={"name": str(model), "max_new_tokens": 6},  # type: ignore[arg-type]
        training={"phase2_rl": phase2},  # type: ignore[arg-type]
        sandbox={"level": "process"},  # type: ignore[arg-type]
    )


def run(rule: str, seed: int, updates: int, warm_start: int) -> dict[str, list[float]]:
    """`sampled`: the mean reward of each update's attempts, from before any learning. `greedy`: before and after."""
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "model", Path(folder) / "run"
        save_model(model, seed, warm_start)
        data = tasks("train", 16 * updates, seed), tasks("validation", 64, seed)
        AgentTrainer(Lookup, {}, configure(rule, seed, model, updates), *data, output).train()
        rows = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return {
        "sampled": [row["reward"] for row in rows if "reward" in row],
        "greedy": [row["eval_reward"] for row in rows if "eval_reward" in row],
    }


def summary(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and half the 95 % interval where there are three values."""
    half = statistics.stdev(values) / len(values) ** 0.5 * T_95 if len(values) == 3 else None
    return statistics.mean(values), half


def above(
    runs: Sequence[dict[str, list[float]]], others: Sequence[dict[str, list[float]]]
) -> tuple[float, float | None]:
    """By how much the mean reward of one rule's runs is above that of another's with the same seeds."""
    pairs = zip(runs, others, strict=True)
    return summary([statistics.mean(one["sampled"]) - statistics.mean(other["sampled"]) for one, other in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--rules", nargs="+", choices=RULES, default=RULES[:2])
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--warm-start", type=int, default=150, help="batches of 64 scripted dialogues")
    options = parser.parse_args()
    table = Table(
        "credit", "last 5 updates", "all updates", "greedy before, after", title="two-turn tool task, best is 1"
    )
    results: dict[str, Any] = {}
    for rule in options.rules:
        began = time.process_time()
        runs = [run(rule, seed, options.updates, options.warm_start) for seed in options.seeds]
        figures = {
            "last": summary([statistics.mean(each["sampled"][-5:]) for each in runs]),
            "all": summary([statistics.mean(each["sampled"]) for each in runs]),
            "greedy_before": summary([each["greedy"][0] for each in runs]),
            "greedy_after": summary([each["greedy"][-1] for each in runs]),
        }
        results[rule] = {**figures, "runs": runs, "cpu_seconds": time.process_time() - began}
        shown = {
            name: f"{mean:.3f}" + ("" if half is None else f" +- {half:.3f}") for name, (mean, half) in figures.items()
        }
        table.add_row(rule, shown["last"], shown["all"], f"{shown['greedy_before']}, {shown['greedy_after']}")
    console = Console(width=120)
    console.print(table)
    found: dict[str, Any] = {"updates": options.updates, "warm_start": options.warm_start, "rules": results}
    if {"turn", "outcome"} <= results.keys():
        found["turn_above_outcome"] = above(results["turn"]["runs"], results["outcome"]["runs"])
        mean, half = found["turn_above_outcome"]
        around = "" if half is None else f" +- {half:.3f}"
        console.print(f"turn above outcome, all updates, seed by seed: {mean:.3f}{around}")
    if options.json:
        artifacts.write_json(options.json, {"versions": artifacts.versions(), "seeds": list(options.seeds), **found})


if __name__ == "__main__":
    main()
