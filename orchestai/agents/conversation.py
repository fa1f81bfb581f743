"""What one role reads and writes in an episode, turn by turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from orchestai.config.agents import BudgetConfig
from orchestai.errors import InfrastructureError
from orchestai.types import Message, Speaker

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")


class BudgetExceededError(Exception):
    """An attempt has no turns, tokens, time or context left; the message says which. It ends, and is worth nothing."""


class Budget:
    """What is left to one attempt. Without limits, all that it wants.

    Args:
        clock: seconds from any beginning.
    """

    def __init__(self, limits: BudgetConfig | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or BudgetConfig()
        self._clock = clock
        self._began = clock()
        self._turns = 0
        self._tokens = 0
        self._calls = 0
        self._calls_s = 0.0

    def open_turn(self, max_new_tokens: int | None) -> int | None:
        """Take a turn. Gives the most tokens that it may have, None where nothing limits them.

        Raises:
            BudgetExceededError: no turn or token is left, or calls have taken too long.
            InfrastructureError: time is over, but not by the fault of those who act.
        """
        limits = self._limits
        if limits.turns is not None and self._turns >= limits.turns:
            raise BudgetExceededError(f"no turn is left of {limits.turns} (agents.budget.turns)")
        if limits.tokens is not None and self._tokens >= limits.tokens:
            raise BudgetExceededError(f"no token is left of {limits.tokens} (agents.budget.tokens)")
        if limits.timeout_s is not None and self._passed > limits.timeout_s:
            raise self._out_of_time(limits.timeout_s)
        self._turns += 1
        left = None if limits.tokens is None else limits.tokens - self._tokens
        return min((limit for limit in (left, max_new_tokens) if limit is not None), default=None)

    def pay(self, tokens: int) -> None:
        """Count tokens as written."""
        self._tokens += tokens

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Count the time of the block as that of calls which a role made; what overlaps counts once."""
        if not self._calls:
            self._calls_s -= self._clock()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._calls_s += self._clock()

    async def wait(self, work: Awaitable[T]) -> T:
        """The result of `work` of ours, if it comes in time.

        Raises:
            BudgetExceededError, InfrastructureError: it did not, and is cancelled; see `open_turn`.
        """
        limit = self._limits.timeout_s
        if limit is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=max(limit - self._passed, 0))
            if task.done():
                return task.result()
            raise self._out_of_time(limit)
        finally:
            task.cancel()

    @property
    def _passed(self) -> float:
        return self._clock() - self._began

    def _out_of_time(self, limit: float) -> Exception:
        calls = self._calls_s + (self._clock() if self._calls else 0.0)
        spent = f"{self._passed:.1f} s passed, {calls:.1f} s of them in calls of tools"
        if calls > limit:
            return BudgetExceededError(f"{spent}, of {limit:g} (agents.budget.timeout_s)")
        return InfrastructureError(
            "timeout",
            f"{spent}; the rest was waiting for models: raise agents.budget.timeout_s, or make fewer attempts at a "
            "time",
        )


@dataclass(frozen=True, eq=False)
class Sampled:
    """The tokens of one act, int64 on the CPU, and the log-probability of each of them when it was drawn.

    The prompt is all that the role had read and written before; the end token is part of the completion where it was
    sampled; `token_limit` is how many it might have.
    """

    prompt: Tensor
    completion: Tensor
    logp: Tensor
    policy_version: int
    token_limit: int


@dataclass(eq=False)
class Act:
    """One act of a role. A workflow may set `reward` and `group` until the episode is made.

    Attributes:
        text: what was written, without the tokens that end a turn.
        ended: whether the role ended its turn itself; else it was cut off.
        tokens: how many were written, the one that ended the turn included.
        sampled: its tokens, where the role learns.
        group: acts that shall be compared with each other have the same one; empty leaves it to the rule of credit.
        cost_usd: what a worker billed for it.
    """

    text: str
    ended: bool
    tokens: int
    sampled: Sampled | None = None
    reward: float | None = None
    group: str = ""
    cost_usd: float = 0.0


class ChatModel(Protocol):
    """The chat model behind a role: a trainable policy or a frozen worker. One per conversation.

    `policy` names the weights, which learn from what is said where they are `trainable`, or the worker.
    """

    policy: str
    trainable: bool

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None) -> Act:
        """Write the next turn of the assistant after `messages`, which begin with all that it was given before.

        Args:
            max_new_tokens: where the turn is cut off, if the configured limit does not come first.

        Raises:
            BudgetExceededError: the messages fill the model's context.
            InfrastructureError: the worker, or the engine, failed.
        """
        ...


@dataclass(eq=False)
class Conversation:
    """The dialogue of one role, which becomes a trajectory.

    Attributes:
        budget, attempt_acts: of the whole attempt; its other conversations have the same.
        acts: what the role wrote, in order of time.
        reward: the role's own reward, where a workflow gives it one.
    """

    role: str
    chat_model: ChatModel
    budget: Budget = field(default_factory=Budget)
    attempt_acts: list[Act] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    reward: float | None = None

    @property
    def steps(self) -> list[Act]:
        """`acts`, by rLLM's name."""
        return self.acts

    def tell(self, content: str, speaker: Speaker = "user") -> None:
        """Let the role read something."""
        self.messages.append({"role": speaker, "content": content})

    async def act(self, max_new_tokens: int | None = None) -> Act:
        """Let the role write its next turn; raises as `Budget.open_turn`, `Budget.wait` and `ChatModel.say` do."""
        limit = self.budget.open_turn(max_new_tokens)
        act = await self.budget.wait(self.chat_model.say(self.messages, limit))
        self.budget.pay(act.tokens)
        self.acts.append(act)
        self.attempt_acts.append(act)
        self.messages.append({"role": "assistant", "content": act.text})
        return act

    async def ask(self, content: str, speaker: Speaker = "user", max_new_tokens: int | None = None) -> Act:
        """`tell`, then `act`."""
        self.tell(content, speaker)
        return await self.act(max_new_tokens)

    def earn(self, act: Act, reward: float) -> None:
        """Reward an act, once the role has done its last.

        The last act's reward is the role's own, which every rule of credit counts once; an earlier one's is the act's.
        """
        if act is self.acts[-1]:
            self.reward = reward
        else:
            act.reward = reward
