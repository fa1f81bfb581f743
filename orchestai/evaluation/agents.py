"""What the agents of a workflow are worth on held-out tasks, and one attempt of theirs at a task of the user's own."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from orchestai.agents.policies import fingerprint_of, seen_by
from orchestai.agents.trainer import open_agents
from orchestai.config.agents import AgentConfig
from orchestai.evaluation.held_out import held_out_tasks
from orchestai.evaluation.statistics import Interval, bootstrap_mean
from orchestai.outcome import Reward, UnscorableCounts
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task
from orchestai.training.rl.monitoring import sample_rows
from orchestai.types import Episode


async def evaluate(config: AgentConfig, *, checkpoint: Path | None, output: Path) -> dict[str, Interval]:
    """One attempt with the likeliest words at each held-out task; figures and transcripts go to `output`.

    Args:
        checkpoint: a folder of trained agents; None takes the models as they are.

    Returns:
        the reward and each of the episodes' figures, with 95 % bootstrap intervals over tasks.
    """
    seen = {} if checkpoint is None else {str(checkpoint): seen_by(checkpoint)}
    held_out = held_out_tasks(open_splits(config.tasks), seen)
    tasks = held_out.kept
    for line in held_out.remarks():
        Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
    async with open_agents(config, checkpoint) as rollout:
        collected = await rollout.exploit(tasks)
    episodes = [episode for group in collected.groups for episode in group]
    judged = [e for e in episodes if isinstance(e.reward, Reward)]
    UnscorableCounts(episode.outcome for episode in episodes).check(config.tasks.unscorable_limit, "episodes")
    names = dict.fromkeys(name for e in judged for name in e.metrics)
    values = {"reward": [e.reward.total for e in judged if isinstance(e.reward, Reward)]}
    values |= {name: [e.metrics.get(name, math.nan) for e in judged] for name in names}
    found = {name: bootstrap_mean(np.array(each, dtype=np.float64)) for name, each in values.items()}
    report = {
        "workflow": config.agents.workflow,
        "suite": config.tasks.suite,
        "tasks": len(tasks),
        "held_out": held_out.to_dict(lambda task: task.task_id),
        "unscorable": len(episodes) - len(judged),
        "figures": {name: interval.to_dict() for name, interval in found.items()},
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "fingerprint": None if checkpoint is None else fingerprint_of(checkpoint),
        "model": config.model.name,
        "data_fingerprint": data_fingerprint(tasks),
        "versions": artifacts.versions(),
        "episodes": sample_rows(episodes),
    }
    artifacts.write_json(output, report)
    return found


async def attempt(config: AgentConfig, task: Task, *, checkpoint: Path | None) -> Episode:
    """One attempt with the likeliest words."""
    async with open_agents(config, checkpoint) as rollout:
        return (await rollout.exploit([task])).groups[0][0]


def table(found: dict[str, Interval], title: str) -> Table:
    """The figures for people."""
    shown = Table("figure", "mean", "95 % interval", "tasks", title=title, title_justify="left")
    for name, interval in found.items():
        shown.add_row(name, f"{interval.mean:.3f}", f"{interval.low:.3f} to {interval.high:.3f}", str(interval.n))
    return shown
