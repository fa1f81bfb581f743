"""Dialogues of a role with a real, tiny policy."""

from __future__ import annotations

import torch

from orchestai.lm.token_policy import TokenPolicy
from orchestai.tasks.task import Task
from orchestai.types import TokenDecisions, Trajectory, Turn
from support.models.language_model import tiny_model, tiny_tokenizer

END = 0
TASKS = {"t": Task(task_id="t", suite="s", instruct_prompt="")}
POLICY = TokenPolicy(tiny_model(), tiny_tokenizer(), max_slots=20, value_head=True)


def turn(prompt: list[int], completion: list[int], reward: float | None = None, group: str = "") -> Turn:
    decisions = TokenDecisions(torch.tensor(prompt), torch.tensor(completion))
    with torch.no_grad():
        scores = POLICY.score([], [decisions], explore=frozenset(), temperature=1.0)
    nothing = torch.zeros(len(completion))
    return Turn(decisions, scores.logp[0], nothing == 0, nothing, nothing.long() - 1, 0, reward=reward, group=group)


def dialogue(acts: list[list[int]], told: list[list[int]], rewards: list[float], role: str = "a") -> Trajectory:
    """Acts end with the end token; before each the role is told something."""
    read: list[int] = []
    turns = []
    for act, heard, reward in zip(acts, told, rewards, strict=True):
        prompt = [*read, *heard]
        turns.append(turn(prompt, [*act, END], reward))
        read = [*prompt, *act, END]
    return Trajectory(role, "p", tuple(turns))
