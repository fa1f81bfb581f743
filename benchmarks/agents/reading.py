"""SmolLM2-135M learns to answer questions from what a search found, on one core: before and after, paired by question.

    python -m benchmarks.agents.reading --json docs/results/agents/reading.json

The role `reader` is shown a worked example and the passage that BM25 finds for a question on an invented archipelago
(`data/agents/questions.jsonl`), and says a few words, which are worth their F1 with the right answer. An adapter learns
by GRPO, and nothing but the settings below differs from the defaults. The 50 test questions are in neither training nor
selection. `exact` is the official exact match, `holds` asks only whether the right words are in what was said, `shown`
whether they were in the passage, without which only a guess could be right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np

from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflow import AttemptContext
from orchestai.agents.workflows.search import Library
from orchestai.config.agents import AgentConfig
from orchestai.evaluation.agents import evaluate
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.rewards.answers import exact_match, f1, holds_answer
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.types import Episode

FIGURES = ("reward", "exact", "holds", "shown", "words")
EXAMPLE = (
    "Budapest\nBudapest is the capital of Hungary. It lies on the Danube.\n\n"
    "On which river does the capital of Hungary lie?"
)
SETTINGS: dict[str, Any] = {
    "agents": {
        "workflow": "benchmarks.agents.reading:Reader",
        "workflow_args": {"corpus": "data/agents/corpus.jsonl"},
    },
    "model": {"name": "smollm2-135m", "max_new_tokens": 10, "lora": {"rank": 16, "alpha": 32}},
    "tasks": {"suite": "written", "path": "data/agents/questions.jsonl"},
}


class Reader(Library):
    """One role answers a question from two passages."""

    roles = ("reader",)

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        passage = self.index(task).search(task.instruction, 1)[0]
        reader = context.conversation("reader", "Answer the question from the text, in as few words as possible.")
        reader.tell(EXAMPLE)
        reader.tell("Danube", "assistant")
        context.answer = said = (await reader.ask(f"{passage.whole}\n\n{task.instruction}")).text
        return context.episode(
            f1(said, task.answers),
            {
                "exact": exact_match(said, task.answers),
                "holds": float(holds_answer(said, task)),
                "shown": float(holds_answer(passage.text, task)),
                "words": float(len(said.split())),
            },
        )


def configure(seed: int, updates: int) -> AgentConfig:
    phase2 = {
        "learning_rate": 5e-4,
        "entropy_coef": 0.0,
        "temperature": 0.7,
        "num_generations": 8,
        "tasks_per_update": 3,
        "num_episodes": 3 * updates,
        "eval_every": updates,
        "eval_tasks": 8,
        "seed": seed,
    }
    return AgentConfig(**SETTINGS, training={"phase2_rl": phase2})  # type: ignore[arg-type]


def tested(config: AgentConfig, checkpoint: Path | None, output: Path) -> dict[str, dict[str, Any]]:
    """Each test question's figures, with what was said, by its id."""
    if not output.exists():
        asyncio.run(evaluate(config, checkpoint=checkpoint, output=output))
    return {episode["task_id"]: episode for episode in json.loads(output.read_text())["episodes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=Path("runs/reading"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    before = tested(configure(0, args.updates), None, args.folder / "before.json")
    values: dict[str, list[Any]] = {name: [] for name in FIGURES}
    for seed in args.seeds:
        config, folder = configure(seed, args.updates), args.folder / str(seed)
        if not (folder / "phase2_last").exists():
            AgentTrainer(config=config, output_dir=folder).train()
        after = tested(config, folder / "phase2_best", folder / "after.json")
        for name in FIGURES:
            values[name].append(np.array([[before[each][name], after[each][name]] for each in before]))
        print(seed, {name: values[name][-1].mean(axis=0).round(3).tolist() for name in FIGURES}, flush=True)
    found = {}
    for name, runs in values.items():
        first, then = np.mean(runs, axis=0).T  # over seeds; the interval is over questions
        found[name] = {
            "before": bootstrap_mean(first).to_dict(),
            "after": bootstrap_mean(then).to_dict(),
            "after less before": bootstrap_mean(then - first).to_dict(),
            "after, each seed": [round(float(run[:, 1].mean()), 3) for run in runs],
        }
    print(json.dumps(found, indent=1))
    if args.json:
        facts = {"seeds": args.seeds, "updates": args.updates, "questions": len(before)}
        artifacts.write_json(args.json, {**facts, "figures": found, "versions": artifacts.versions()})


if __name__ == "__main__":
    main()
