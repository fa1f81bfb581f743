"""Chat models that say what a test wrote down, so that a workflow's own logic is tested without a model.

Their tokens are bytes: a prompt holds every message so far, each followed by the end token, and what a role reads later
begins with all that it read and wrote before, as with the chat models of real weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch

from orchestai.agents.conversation import Act, Sampled
from orchestai.agents.workflow import AttemptContext
from orchestai.tasks.task import Task
from orchestai.types import Episode, Message

END = 256
Script: TypeAlias = Sequence[str | Exception] | Callable[[Sequence[Message]], str]
"""What a role says, in order of time over all its conversations, or what it answers to the messages so far.

An exception among the texts is raised instead of said.
"""


class ScriptedChatModel:
    """Says one text of the script after the other; `max_new_tokens` counts bytes.

    Attributes:
        heard: the messages before each act.
    """

    def __init__(
        self,
        script: Script | Iterator[str | Exception],
        *,
        policy: str = "scripted",
        trainable: bool = True,
        policy_version: int = 0,
    ) -> None:
        self.policy = policy
        self.trainable = trainable
        self.heard: list[list[Message]] = []
        self._version = policy_version
        self._script = script if callable(script) or isinstance(script, Iterator) else iter(script)

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        self.heard.append(list(messages))
        said = self._script(messages) if callable(self._script) else next(self._script, None)
        if said is None:
            raise AssertionError(f"the script is over, but the role is to act again after {messages[-1]}")
        if isinstance(said, Exception):
            raise said
        completion = [*said.encode(), END][:max_new_tokens]
        ended = completion[-1] == END
        text = bytes(completion[:-1] if ended else completion).decode(errors="replace")
        prompt = [i for message in messages for i in (*message["content"].encode(), END)]
        if not self.trainable:
            return Act(text, ended, len(completion))
        logp = torch.full((len(completion),), -1.0)
        return Act(
            text,
            ended,
            len(completion),
            Sampled(torch.tensor(prompt), torch.tensor(completion), logp, self._version, 64),
        )


def scripted_agents(
    task: Task, scripts: Mapping[str, Script], *, frozen: frozenset[str] = frozenset()
) -> AttemptContext:
    """Agents whose roles follow scripts; each role's policy has the role's name.

    Args:
        frozen: roles that do not learn.
    """
    running = {role: script if callable(script) else iter(script) for role, script in scripts.items()}
    return AttemptContext(
        task, lambda role: ScriptedChatModel(running[role], policy=role, trainable=role not in frozen)
    )


def rewards(episode: Episode) -> list[tuple[str, float | None]]:
    """Each act's reward, in order of conversations; the last act's is its role's."""
    return [
        (each.role, each.reward if turn is each.turns[-1] else turn.reward)
        for each in episode.trajectories
        for turn in each.turns
    ]
