"""Credit for turns from a model that hardly ever calls its tool: p(call) and reward under four rules.

    python -m benchmarks.agents.mt_grpo [--json docs/results/agents/mt_grpo.json]

The policy has three chances, one logit each: that it calls (.05 at first), that its call retrieves (.3), that it
answers rightly from what was retrieved (.05, as often as without). A turn that retrieved is rewarded 1, an attempt that
is right 1. Each of 40 updates has 8 attempts at each of 8 tasks, and takes one step along the advantages, as the rules
of training give them:

- `turn`: `agents.credit: turn`, as it is. `published`: MT-GRPO's rule, written from the paper's authors' code, where
  every attempt has a reward for its turn (0 without a call). `callers alone`: turn rewards compared among those who
  called. `outcome`: GRPO.

Five seeds, the same draws for all; mean and 95 % interval over seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from orchestai.outcome import Reward
from orchestai.storage import artifacts
from orchestai.training.rl import formulas
from orchestai.training.rl.credit import Credit, acts_of
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn

SEEDS, UPDATES, TASKS, ATTEMPTS, RATE = 5, 40, 8, 8, 0.1
START = (0.05, 0.3, 0.05)
BLIND = 0.05
"""Chance of a right answer without anything retrieved."""
Attempts = Tensor
"""(tasks, attempts, 3) bool: called, retrieved, right."""
Rule = Callable[[Attempts], tuple[Tensor, Tensor]]
"""From attempts to (tasks, attempts) advantages of the first act and of the answer after a call."""


def z(rewards: Tensor, counted: Tensor | None = None) -> Tensor:
    """Rewards above the mean of those that count in their group, in its standard deviations."""
    counted = torch.ones_like(rewards, dtype=torch.bool) if counted is None else counted
    groups = torch.arange(len(rewards))[:, None].expand_as(rewards)
    return formulas.group_advantages(rewards.flatten(), groups.flatten(), counted.flatten()).values.view_as(rewards)


def ours(rule: Credit) -> Rule:
    def advantages(attempts: Attempts) -> tuple[Tensor, Tensor]:
        known = []
        for task, group in enumerate(attempts.tolist()):
            for called, retrieved, right in group:
                turns = (turn(float(retrieved)), turn(None)) if called else (turn(None),)
                episode = Episode(str(task), str(task), (Trajectory("a", "a", turns),), Reward(float(right)))
                known.append((episode, episode.trajectories[0]))
        acts = acts_of(known)
        found = rule.advantages(
            acts,
            lambda rewards, groups, units: formulas.group_advantages(
                rewards, groups, torch.ones(len(rewards), dtype=torch.bool), unit_ids=units
            ),
        ).values
        shape = attempts.shape[:2]
        return found[acts.number == 0].view(shape), found[acts.last].view(shape)

    return advantages


def published(attempts: Attempts) -> tuple[Tensor, Tensor]:
    _, retrieved, right = attempts.double().unbind(-1)
    return z(right) + z(retrieved), z(right)


def callers_alone(attempts: Attempts) -> tuple[Tensor, Tensor]:
    called, retrieved, right = attempts.double().unbind(-1)
    return z(right) + z(retrieved, called.bool()), z(right)


@cache
def turn(reward: float | None) -> Turn:
    one = torch.ones(1)
    decisions = TokenDecisions(prompt=torch.ones(1, dtype=torch.long), completion=torch.ones(1, dtype=torch.long))
    return Turn(decisions, -one, one > 0, 0 * one, one.long() - 1, 0, reward=reward)


RULES: dict[str, Rule] = {
    "turn": ours(Credit("turn")),
    "published": published,
    "callers alone": callers_alone,
    "outcome": ours(Credit("outcome")),
}


def learn(rule: Rule, seed: int) -> tuple[float, float]:
    """Chance of a call and of a right answer after all updates."""
    logits = torch.logit(torch.tensor(START, dtype=torch.float64))
    draw = torch.Generator().manual_seed(seed)
    for _ in range(UPDATES):
        chance = logits.sigmoid()
        drawn = torch.rand(TASKS, ATTEMPTS, 3, generator=draw, dtype=torch.float64)
        called = drawn[..., 0] < chance[0]
        retrieved = called & (drawn[..., 1] < chance[1])
        right = drawn[..., 2] < torch.where(retrieved, chance[2], BLIND)
        first, answer = rule(torch.stack([called, retrieved, right], -1))
        done = torch.stack([called, retrieved, right], -1).double() - chance  # gradients of the log-probabilities
        step = torch.stack([first * done[..., 0], first * called * done[..., 1], answer * retrieved * done[..., 2]])
        logits = logits + RATE * step.sum((1, 2)) / ATTEMPTS
    call, retrieve, read = logits.sigmoid().tolist()
    return call, call * retrieve * read + (1 - call * retrieve) * BLIND


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = {}
    for name, rule in RULES.items():
        runs: Sequence[tuple[float, float]] = [learn(rule, seed) for seed in range(SEEDS)]
        calls, rewards = zip(*runs, strict=True)
        found[name] = {"p(call)": interval(calls), "reward": interval(rewards)}
        print(name, found[name], flush=True)
    if args.json:
        artifacts.write_json(args.json, {"rules": found, "seeds": SEEDS, "versions": artifacts.versions()})


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and half of Student's 95 % interval."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return {"mean": round(mean, 3), "half": round(2.776 * deviation / math.sqrt(len(values)), 3)}


if __name__ == "__main__":
    main()
