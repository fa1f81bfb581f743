"""What running a workflow gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.tasks.dialogue import ToolCall
from orchestai.workflow import Workflow

INTERRUPTED = "interrupted"
"""The error of a run that was cancelled before it was done."""
STOPPED = "stopped before it answered"
"""The error of an attempt that was cut off."""
CUT = "its answer was cut off: there were no more tokens for the rest"
"""Why an answer is not accepted."""


class Attempt(BaseModel):
    """One worker asked for one subtask."""

    model_config = ConfigDict(frozen=True)

    worker: str
    prompt: str = ""
    answer: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(0, exclude_if=lambda tokens: not tokens)
    """Of the prompt's, those that the server had read before."""
    cost_usd: float = 0.0
    reserved_usd: float = Field(0.0, exclude_if=lambda usd: not usd)
    """What it might have cost, where that was set aside before."""
    latency_ms: float = 0.0
    source: str = ""
    usage_estimated: bool = False
    """Whether the tokens, and so the cost, were counted here, since the server did not say."""
    tool_calls: tuple[ToolCall, ...] = Field((), exclude_if=lambda calls: not calls)
    """Of the client's tools, for which the worker waits."""
    truncated: bool = Field(False, exclude_if=lambda truncated: not truncated)
    """Whether there were no more tokens for the rest of the answer."""
    passed_check: bool | None = None
    """Whether the subtask's own visible examples passed; None if it shows none."""
    rejected: str = Field("", exclude_if=lambda reason: not reason)
    """Why the answer is not accepted, though no check refuses it: it is cut off, empty, or a refusal."""
    error: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether there is an answer that nothing speaks against."""
        return self.error is None and self.passed_check is not False and not self.rejected


class Decision(NamedTuple):
    """What is decided after an answer to a subtask.

    Attributes:
        kept: index of the attempt whose answer is the output as it stands; -1: there is none.
        done: whether nobody else is asked.
        probability: that this answer is right; None where nobody knows.
    """

    kept: int
    done: bool
    probability: float | None = None


Decide: TypeAlias = Callable[[Sequence[Attempt]], Decision]
"""Looks at all attempts so far, in their order."""


def first_accepted(attempts: Sequence[Attempt]) -> Decision:
    """Ask until an answer is accepted; without any, the first that there is stands."""
    answered = [i for i, attempt in enumerate(attempts) if attempt.error is None]
    accepted = [i for i in answered if attempts[i].accepted]
    return Decision((accepted or answered or [-1])[0], bool(accepted))


class SubtaskResult(BaseModel):
    """All attempts at one subtask, in the order in which they were made.

    Attributes:
        kept: index of the attempt whose answer is the output.
        probability: that it is right, where answers were judged.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    status: Literal["done", "failed", "skipped"]
    """`done`: has an output. `failed`: no worker answered. `skipped`: a parent failed, time or budget ran out."""
    attempts: tuple[Attempt, ...] = ()
    kept: int = -1
    probability: float | None = Field(None, exclude_if=lambda probability: probability is None)
    output: str = ""
    error: str | None = None

    @property
    def worker(self) -> str:
        """The worker whose answer counts; empty if none answered."""
        return self.attempts[self.kept].worker if self.attempts and self.status == "done" else ""

    @property
    def passed_check(self) -> bool | None:
        return self.attempts[self.kept].passed_check if self.attempts and self.status == "done" else None

    @property
    def failed(self) -> bool:
        """Whether it has no output, or none that was accepted."""
        return self.status != "done" or not self.attempts[self.kept].accepted

    @property
    def cost_usd(self) -> float:
        return sum(attempt.cost_usd for attempt in self.attempts)

    @property
    def latency_ms(self) -> float:
        return sum(attempt.latency_ms for attempt in self.attempts)


class Execution(BaseModel):
    """What running a workflow gave.

    Attributes:
        answer: the assembled final answer, a program or a text as the task wants it.
        partial: whether a deadline came before all subtasks were done; the answer is then that of the last which is.
        does_as_shown: whether the program gave the results of the task's example calls; None where nobody looked.
        fault: what of the infrastructure failed on the way, if anything did; nothing can be learned from it then.
        total_cost: US dollars, of all attempts.
        total_latency_ms: the critical path, from the measured latencies of the answers; checks and tests are not in it.
        error: the first thing that went wrong, if anything did.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str
    workflow: Workflow
    results: tuple[SubtaskResult, ...]
    answer: str = ""
    partial: bool = Field(False, exclude_if=lambda partial: not partial)
    does_as_shown: bool | None = Field(None, exclude_if=lambda shown: shown is None)
    fault: Unscorable | None = None
    total_cost: float = 0.0
    total_latency_ms: float = 0.0
    error: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """For which the step that answers waits."""
        answered = self._answered
        return () if answered is None else answered.tool_calls

    @property
    def truncated(self) -> bool:
        """Whether there were no more tokens for the rest of the answer."""
        answered = self._answered
        return answered is not None and answered.truncated

    @property
    def _answered(self) -> Attempt | None:
        """The attempt that gave the output of the step that answers."""
        result = next(result for result in self.results if result.id == self.workflow.answering())
        return result.attempts[result.kept] if result.attempts and result.status == "done" else None

    @property
    def outputs(self) -> dict[str, str]:
        return {result.id: result.output for result in self.results}

    @property
    def checks_passed(self) -> int:
        """Subtasks whose own visible check passed."""
        return sum(result.passed_check is True for result in self.results)


class JudgedExecution(Execution):
    """An execution and what its answer is worth.

    Attributes:
        outcome: `Scored` as the task's scorer says (for unit tests the fraction passed), or `Unscorable`.
        sandbox: how the hidden tests were run, as level/isolation (see `Report`); empty if they were not.
        rewards: what the scorers of `rewards.reward_weights` gave, by name.
    """

    outcome: Outcome
    tests_passed: int = 0
    tests_total: int = 0
    sandbox: str = ""
    rewards: Mapping[str, float] = Field({}, exclude_if=lambda rewards: not rewards)

    @property
    def judged_open(self) -> bool:
        """Whether the hidden tests ran in the process of what they judged."""
        return self.sandbox.endswith("/open")

    @property
    def success(self) -> bool:
        """The full score: for unit tests, all of them passed."""
        return isinstance(self.outcome, Scored) and self.outcome.value >= 1.0
