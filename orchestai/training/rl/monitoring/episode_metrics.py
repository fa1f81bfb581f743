"""Episodes in figures."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch

from orchestai.outcome import Reward, Unscorable
from orchestai.planner.slots.decisions import SlotLayout
from orchestai.training.rl.advantages import Credited, Learning
from orchestai.types import Episode, TokenDecisions, Turn


def describe_episodes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over the episodes that could be judged, and the shares of valid plans and of unscorable episodes.

    Each of the episodes' own figures is a mean over those that have it.
    """
    judged = [(e.reward.total, e) for e in episodes if isinstance(e.reward, Reward)]
    count = max(len(judged), 1)
    mean = sum(value for value, _ in judged) / count
    names = dict.fromkeys(["success", *(name for _, e in judged for name in e.metrics)])
    return {
        "reward": mean,
        "reward_std": math.sqrt(sum((value - mean) ** 2 for value, _ in judged) / count),
        **{name: _mean([e.metrics[name] for _, e in judged if name in e.metrics]) for name in names},
        "valid_share": sum(e.valid for e in episodes) / max(len(episodes), 1),
        "raw_valid_share": sum(e.raw_valid for e in episodes) / max(len(episodes), 1),
        "unscorable_share": 1 - len(judged) / max(len(episodes), 1),
    }


def describe_batch(episodes: Sequence[Episode], learnings: Collection[Learning]) -> dict[str, float]:
    """`describe_episodes`, and how much there is to learn: slots, spread of the advantages, share of flat groups.

    Args:
        learnings: one per policy.
    """
    advantages = torch.cat([learning.advantages.float() for learning in learnings])
    turns = [turn for e in episodes for turn in e.turns]
    slots = sum(int(turn.mask.sum()) for turn in turns)
    cut_off = [float(turn.truncated) for turn in turns if turn.token_limit is not None]
    groups, flat = sum(one.groups for one in learnings), sum(one.flat_groups for one in learnings)
    return describe_episodes(episodes) | {
        "advantage_mean": float(advantages.mean()) if len(advantages) else 0.0,
        "advantage_std": float(advantages.std(correction=0)) if len(advantages) else 0.0,
        "flat_group_share": flat / groups if groups else 1.0,
        "slots_per_plan": slots / max(len(episodes), 1),
        **({"truncated_share": _mean(cut_off)} if cut_off else {}),
        **_together([learning.metrics for learning in learnings]),
    }


def describe_policies(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The figures of the optimizer steps of each policy under `POLICY/NAME`, and their means; bare if there is one."""
    named = {f"{policy}/{name}": value for policy, some in metrics.items() for name, value in some.items()}
    return _together(list(metrics.values())) | (named if len(metrics) > 1 else {})


def _together(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of figures over those that have them; of a maximum the maximum."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for some in several for name in some):
        values = [some[name] for some in several if name in some]
        found[name] = max(values) if "max_" in name else _mean(values)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def sample_rows(episodes: Sequence[Episode], learnings: Collection[Learning] = ()) -> list[dict[str, Any]]:
    """Episodes for people to read, as JSON-ready rows.

    Args:
        learnings: what was learned from them, if anything; then each row has its `turns`.
    """
    credited = {turn: credit for learning in learnings for turn, credit in learning.credited.items()}
    return [
        {
            "task_id": e.task_id,
            "reward": e.reward.total if isinstance(e.reward, Reward) else None,
            "fault": e.reward.kind if isinstance(e.reward, Unscorable) else "",
            "unscorable": e.reward.reason if isinstance(e.reward, Unscorable) else "",
            "valid": e.valid,
            **{name: round(value, 6) for name, value in e.metrics.items()},
            **({"rewards": _parts(e.reward)} if isinstance(e.reward, Reward) and e.reward.parts else {}),
            **({"turns": _turn_rows(e, credited)} if learnings else {}),
            **({"speeches": _speeches(e)} if any(t.transcript for t in e.trajectories) else {}),
            "transcript" if any(t.transcript for t in e.trajectories) else "plan": e.text,
        }
        for e in episodes
    ]


def _speeches(episode: Episode) -> list[tuple[str, str, int]]:
    """Role, speaker and characters of each part of the transcript, since what is said may look like its beginning."""
    return [(t.role, speaker, len(words)) for t in episode.trajectories for speaker, words in t.transcript]


def _parts(reward: Reward) -> dict[str, dict[str, float]]:
    return {name: part._asdict() for name, part in reward.parts.items()}


def _turn_rows(episode: Episode, credited: Mapping[Turn, Credited]) -> list[dict[str, Any]]:
    """The turns that a role learns from; a role's own reward is its last turn's, if that has none."""
    rows = []
    for trajectory in episode.trajectories:
        for number, turn in enumerate(trajectory.turns, start=1):
            last = number == len(trajectory.turns)
            credit = credited.get(turn)
            rows.append(
                {
                    "role": trajectory.role,
                    "turn": number,
                    "text": turn.text,
                    "reward": trajectory.reward if last and turn.reward is None else turn.reward,
                    "advantage": round(credit.advantage, 6) if credit is not None and credit.slots else None,
                    "truncated": turn.truncated,
                    "slots": credit.slots if credit is not None else 0,
                    **({"decisions": decision_credits(turn, credit)} if credit is not None and credit.slots else {}),
                }
            )
    return rows


def decision_credits(turn: Turn, credit: Credited) -> list[tuple[int, str, float]]:
    """What each decision of a turn was credited with.

    Returns:
        Of a plan by slots (step from 1, kind of decision, advantage) each, with 0 for edges; of tokens (how many in a
        row, `tokens`, advantage). Where slots are laid out otherwise than in `Scores`, their kind is `decision`.
    """
    values = [round(value, 6) for value in credit.advantages.tolist()]
    if isinstance(turn.decisions, TokenDecisions):
        return [(len(list(some)), "tokens", value) for value, some in groupby(values)]
    layout = SlotLayout(int(turn.step.max()) + 1, turn.decisions.fallbacks.shape[1])
    steps = turn.step.tolist()
    kinds = layout.kinds if layout.slots == len(steps) else ("decision",) * len(steps)
    return [
        (steps[place] + 1, kinds[place], value) for place, value in zip(credit.places.tolist(), values, strict=True)
    ]
