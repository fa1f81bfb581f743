"""Two roles so simple that what is best is known, and the real trainer. Run as a script by several processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.agents.conversation import BudgetExceededError
from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.agents import AgentConfig
from orchestai.config.section import Section
from orchestai.errors import InfrastructureError
from orchestai.tasks.task import Task
from orchestai.types import Episode

TASKS = [Task(task_id=str(i), suite="sample", instruct_prompt=f"Say {word}.") for i, word in enumerate("abcdef")]


def plain(text: str) -> float:
    """The share of bytes that are letters from a to o or their like: half of what a model says that knows nothing."""
    return sum(character.isascii() for character in text) / max(len(text), 1)


def repeat(word: str) -> str:
    """Says it again.

    Args:
        word: anything.
    """
    return f"You said {word}."


class Talk(AgentWorkflow):
    """A caller speaks twice, an answerer once in between; each shall write nothing but ASCII."""

    roles = ("caller", "answerer")

    class Args(Section):
        silent: bool = False
        """Leave the answerer out."""
        lost: tuple[str, ...] = ()
        """Tasks whose attempts fail for want of infrastructure."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        caller = context.conversation("caller", "You call.")
        first = await caller.ask(task.instruction)
        acts = [first]
        if not self.args.silent:
            answerer = context.conversation("answerer")
            acts.append(await answerer.ask(f"They say {first.text!r}."))
            answerer.reward = plain(acts[-1].text)
        acts.append(await caller.ask(acts[-1].text, "tool"))
        for act in acts:
            act.reward = plain(act.text)
        if task.task_id in self.args.lost:
            raise InfrastructureError("connection", "the line is dead")
        reward = sum(plain(act.text) for act in acts) / len(acts)
        return context.episode(reward, {"success": float(reward == 1)})


class Graded(Talk):
    """Gives two rewards by name, and for the first task one that it did not announce, if it is told so."""

    rewards = ("plain", "short")

    class Args(Talk.Args):
        announced: bool = True

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        text = (await context.conversation("caller").ask(task.instruction)).text
        given = {"plain": plain(text), "short": -float(len(text))}
        return context.episode(given if self.args.announced else {**given, "polite": 1.0})


class Spender(Talk):
    """Is wrong, which is worth -1; every second attempt at a task spends its budget."""

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        await context.conversation("caller").ask(task.instruction)
        if next(self._attempts) % 2:
            raise BudgetExceededError("nothing is left")
        return context.episode(-1.0)

    _attempts = count()


def settings(**changes: Any) -> AgentConfig:
    """Dotted keys, such as agents_policies=... for agents.policies."""
    phase2 = {
        "num_episodes": 8,
        "tasks_per_update": 4,
        "num_generations": 4,
        "eval_every": 2,
        "eval_tasks": 2,
        "learning_rate": 1e-3,
        "entropy_coef": 0.0,
        "micro_batch_size": 6,
        **changes.pop("phase2", {}),
    }
    model = {
        "name": "tiny",
        "max_new_tokens": 6,
        "tiny": {"hidden": 16, "layers": 1, "heads": 2, "context": 1024},
        **changes.pop("model", {}),
    }
    tasks = changes.pop("tasks", {})
    return AgentConfig(
        agents={"workflow": "support.agents.sample:Talk", **changes},
        model=model,
        tasks=tasks,
        training={"phase2_rl": phase2, "timeout_s": 120},
        sandbox={"level": "process"},
    )


def trainer(output: Path, config: AgentConfig, **changes: Any) -> AgentTrainer:
    arguments = {"workflow_class": Talk, "train_dataset": TASKS[:4], "val_dataset": TASKS[4:], **changes}
    return AgentTrainer(config=config, output_dir=output, **arguments)


def rows(output: Path, key: str = "reward") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if key in line]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """The figures that do not depend on the clock."""
    return {key: value for key, value in row.items() if not key.startswith(("seconds", "slots_per_second"))}


class Killed(Talk):
    """Sends its process a signal, SIGKILL unless told otherwise, at the attempt of that number."""

    left = int(os.environ.get("KILL_AT", "0"))

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        Killed.left -= 1
        if Killed.left == 0:
            os.kill(os.getpid(), getattr(signal, os.environ.get("KILL_BY", "SIGKILL")))
        return await super().run(task, context)


def main(output: Path, runs: dict[str, dict[str, Any]]) -> None:
    for name, changes in runs.items():
        trained = trainer(output / name, settings(**changes))
        if "KILL_AT" in os.environ:
            trained.workflow_class = Killed
        trained.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
