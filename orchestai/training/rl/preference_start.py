"""Where learning of preferences begins: at the choices that the estimate of the pool's workers makes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from orchestai.estimate.preference import by_preference
from orchestai.execution.reward_reference import Reference
from orchestai.planner.outlook import PlanOutlook, PoolOutlook
from orchestai.planner.slots.decisions import DecisionBatch, explored
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.scoring import score
from orchestai.preference import Preference
from orchestai.tasks.task import Task
from orchestai.training.rl.rollouts.preferences import draw_preference
from orchestai.types import DecisionKind, Decisions

_TASKS, _EACH, _ROWS = 256, 8, 128
"""Tasks that are looked at, preferences of each, and rows of one step."""
_PASSES, _RATE = 12, 2e-3
_CHOICES: frozenset[DecisionKind] = frozenset({"worker", "fallback"})


def imitate_estimate(
    planner: PlannerModel, tasks: Sequence[Task], pool: PoolOutlook, reference: Reference, seed: int
) -> int:
    """Teach a planner that knows no preference the choices of the estimate; without a preference it plans as before.

    A planner that is sure of its choices hardly ever samples what another preference asks for, so that reward alone
    would have nothing to compare.

    Args:
        tasks: to learn from; of many, some are drawn.
        reference: what a typical execution costs, and how long it takes.

    Returns:
        choices of whole plans that it learned from; 0 where the estimate knows nothing of these tasks.
    """
    some = random.Random(f"{seed}/preferences").sample(list(tasks), min(_TASKS, len(tasks)))
    rows: list[tuple[Task, Decisions]] = []
    for task, plan in zip(some, planner.plan(some), strict=True):
        outlook = pool.of(plan, task.instruction)
        if outlook is None or not isinstance(plan.decisions, Decisions):
            continue
        for number in range(_EACH):
            preference = draw_preference(f"{seed}/start/{number}/{task.task_id}", 1.0)
            assert preference is not None
            rows.append((task, _chosen(plan.decisions, outlook, preference, reference, planner)))
    if rows:
        _imitate(planner, rows, seed)
        planner.prefers = True
    return len(rows)


def _chosen(
    decisions: Decisions, outlook: PlanOutlook, preference: Preference, reference: Reference, planner: PlannerModel
) -> Decisions:
    """The plan with the workers that the estimate chooses at a preference."""
    names = [card.name for card in planner.cards]
    hour_usd = preference.hour_usd(reference.cost_usd, reference.latency_ms / 1000)
    options = outlook.options(names, 1 + planner.config.max_fallbacks, hour_usd)
    typical = reference.cost_usd + hour_usd / 3600 * reference.latency_ms / 1000
    best = int(by_preference(options.success, options.price / max(typical, 1e-12), preference.prefer)[0])
    place = {outlook.pool.estimate.workers.index(name): i for i, name in enumerate(names) if name in outlook.pool.place}
    workers, fallbacks = decisions.workers.clone(), torch.full_like(decisions.fallbacks, len(names))
    for step, order in enumerate(options.workers[best]):
        asked = [place[one] for one in order]
        workers[step] = asked[0]
        fallbacks[step, : len(asked) - 1] = torch.tensor(asked[1:], dtype=torch.long)
    return replace(decisions, workers=workers, fallbacks=fallbacks, preference=preference)


def _imitate(planner: PlannerModel, rows: Sequence[tuple[Task, Decisions]], seed: int) -> None:
    """Make the choices likelier by what preferences add to the logits alone; each plan is read once."""
    learned = planner.selector.preference_parameters()
    optimizer = torch.optim.Adam(learned, lr=_RATE)
    drawn = random.Random(f"{seed}/imitation").sample(rows, len(rows))
    parts = [_read(planner, drawn[first : first + _ROWS]) for first in range(0, len(drawn), _ROWS)]
    steps = _PASSES * len(parts)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = _RATE * (1 - step / steps)
        words, given, mask = parts[step % len(parts)]
        selection = planner.selector(words, planner.card_features, given)
        logp = score(None, selection, given, mask, 1.0, planner.decoder.layout).logp
        gradients = torch.autograd.grad(-logp.sum() / mask.sum().clamp(min=1), learned)
        for parameter, gradient in zip(learned, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    optimizer.zero_grad()


@torch.no_grad()
def _read(planner: PlannerModel, rows: Sequence[tuple[Task, Decisions]]) -> tuple[Tensor, DecisionBatch, Tensor]:
    """What the steps say, (rows, n, d), the decisions, and which of them are choices of workers, (rows, slots)."""
    with planner.without_dropout():
        given = DecisionBatch.collate([decisions for _, decisions in rows], planner.card_features.device)
        mask = explored(given, None, len(planner.cards), _CHOICES, planner.decoder.layout)
        instructions = [task.instruction for task, _ in rows]
        words = planner.words_of(instructions, [planner.encoder.offsets(one) for one in instructions], given)
        return words, given, mask
