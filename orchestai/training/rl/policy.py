"""What the trainer needs: policies, and whatever makes episodes with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from orchestai.config import RlConfig
from orchestai.planner.base import DecisionScorer, TrainablePlanner
from orchestai.tasks.task import Task
from orchestai.training.rl.batch import cut, rows_of
from orchestai.types import AnyDecisions, Episode, Trajectory


class Policy(DecisionScorer, Protocol):
    """A torch module that scores its decisions (`PlannerModel`, `LanguagePlanner`, `TokenPolicy`)."""

    @property
    def max_slots(self) -> int:
        """Most slots of the loss that a trajectory can have."""
        ...

    def cost(self, decisions: Sequence[AnyDecisions]) -> int:
        """Slots that one forward pass over these rows computes; tokens of a prompt count, once if rows share it."""
        ...

    def reference(self) -> AbstractContextManager[object] | None:
        """A context in which it scores as before training, its adapter switched off; None if only a copy can."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def to(self, device: torch.device) -> Any: ...

    def requires_grad_(self, requires_grad: bool = True) -> Any: ...

    def eval(self) -> Any: ...


class PlannerPolicy(TrainablePlanner, Policy, Protocol):
    """A policy that plans (`PlannerModel`, `LanguagePlanner`)."""


@dataclass
class Episodes:
    """What was collected.

    Attributes:
        groups: for each task, in order, the episodes of its attempts.
        seconds: spent, by what on: `sampling` plans, `scoring` them and waiting for executions (`executing`), or
            letting agents act (`acting`).
    """

    groups: list[list[Episode]]
    seconds: dict[str, float] = field(default_factory=dict)


class Collector(Protocol):
    """Turns tasks into episodes (`Rollout`, `AgentRollout`)."""

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """`num_generations` attempts per task."""
        ...

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task, every decision the likeliest."""
        ...

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """Draw from the policies' weights of those versions from now on.

        Returns:
            figures for reports, where the weights are new.
        """
        ...


def with_scores(
    episodes: Sequence[Episode], tasks: Mapping[str, Task], policies: Mapping[str, Policy], config: RlConfig
) -> list[Episode]:
    """The episodes, their turns with the value of each decision; with `sampler_correction`, also with the policy's own
    log-probabilities beside those of what drew them.

    Args:
        tasks: by id.
        policies: of tokens, by the name that trajectories give.
    """
    wanted = [(i, k, t) for i, e in enumerate(episodes) for k, t in enumerate(e.trajectories) if t.turns]
    scored: dict[tuple[int, int], Trajectory] = {}
    for name, policy in policies.items():
        mine = [(i, k, trajectory) for i, k, trajectory in wanted if trajectory.policy == name]
        split = [rows_of(trajectory.turns) for _, _, trajectory in mine]
        given = [tasks[episodes[i].task_id] for (i, _, _), rows in zip(mine, split, strict=True) for _ in rows]
        every = [row for rows in split for row in rows]
        decisions = [row.decisions for row in every]
        scored_rows: list[tuple[Tensor, Tensor]] = []
        for part in cut(decisions, policy.cost, config):
            with torch.no_grad():
                scores = policy.score(
                    [given[i] for i in part],
                    [decisions[i] for i in part],
                    explore=frozenset(),
                    temperature=config.temperature,
                )
            for place, i in enumerate(part):
                slots = slice(len(every[i].turn))
                # Copies: a view would take its whole batch along to other processes.
                scored_rows.append((scores.logp[place, slots].cpu().clone(), scores.value[place, slots].cpu().clone()))
        found = iter(scored_rows)
        for (i, k, trajectory), rows in zip(mine, split, strict=True):
            turns = list(trajectory.turns)
            for row in rows:
                logp, value = next(found)
                for number in row.turn.unique().tolist():
                    if number >= 0:
                        of_turn, turn = row.turn == number, turns[number]
                        turns[number] = replace(turn, value=value[of_turn])
                        if config.sampler_correction is not None:
                            own = {"logp": logp[of_turn], "sampler_logp": turn.logp}
                            turns[number] = replace(turns[number], **own)
            scored[i, k] = replace(trajectory, turns=tuple(turns))
    return [
        replace(e, trajectories=tuple(scored.get((i, k), t) for k, t in enumerate(e.trajectories)))
        for i, e in enumerate(episodes)
    ]
