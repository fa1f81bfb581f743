"""What an attempt at a task is worth: a score or a reward, or the reason why there is none."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from orchestai.errors import LASTING, FaultKind, InfrastructureError, UserError

_QUOTED = re.compile(r"""(?<!\w)(['"]).{0,1000}?\1(?!\w)""", re.DOTALL)
_NUMBERED = re.compile(r"(?<![\w-])[\w-]*\d[\w-]*(?:[.:,][\w-]*\d[\w-]*)*")
"""Numbers, times, ports, addresses, ids: words with a digit in them."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The attempt was judged; `value` is its score (for unit tests: the fraction passed, in [0, 1])."""

    value: float


@dataclass(frozen=True, slots=True)
class Unscorable:
    """The attempt could not be judged (a server was down, a recording is missing). Never a zero."""

    kind: FaultKind
    reason: str

    @classmethod
    def of(cls, error: InfrastructureError) -> Unscorable:
        """What an attempt is that met `error`."""
        return cls(error.kind, error.reason)

    @property
    def group(self) -> str:
        """The kind and the reason without numbers, times, ports, ids and quotations: equal for equal faults."""
        return f"{self.kind}: {' '.join(_NUMBERED.sub('#', _QUOTED.sub('#', self.reason)).split())}"


Outcome: TypeAlias = Scored | Unscorable


def judged(outcome: Outcome) -> float:
    """The score.

    Raises:
        InfrastructureError: there is none.
    """
    if isinstance(outcome, Unscorable):
        raise InfrastructureError(outcome.kind, outcome.reason)
    return outcome.value


def reward_number(value: Any) -> float:
    """A reward as a number, whether it is one of Python's, NumPy's or torch's, a truth value, or a number in a text."""
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"a reward is one finite number, and not {str(value)[:80]!r}")
    return number


class RewardPart(NamedTuple):
    """One of several terms of a reward, which is the sum of their values times their weights."""

    value: float
    weight: float = 1.0

    @property
    def contribution(self) -> float:
        """What it gives to the reward or takes from it."""
        return self.value * self.weight


class StepReward(NamedTuple):
    """The share of the reward that a step earned alone, and whether it had no answer that passed its visible check."""

    earned: float
    failed: bool


@dataclass(frozen=True)
class Reward:
    """What one attempt earned, to learn from.

    Attributes:
        total: all of it.
        parts: its terms by name; empty where it is one figure.
        steps: one per step of the plan; empty where nothing ran.
    """

    total: float
    parts: Mapping[str, RewardPart] = field(default_factory=dict)
    steps: tuple[StepReward, ...] = ()

    @classmethod
    def of(cls, parts: Mapping[str, RewardPart], steps: Iterable[StepReward] = ()) -> Reward:
        """The weighted sum of its parts."""
        return cls(sum(part.contribution for part in parts.values()), parts, tuple(steps))

    @property
    def figures(self) -> dict[str, float]:
        """The parts for reports, as `reward_NAME`."""
        return {f"reward_{name}": part.value for name, part in self.parts.items()}

    @property
    def contributions(self) -> dict[str, float]:
        """Likewise, each times its weight, so that they add up to the total."""
        return {f"reward_{name}": part.contribution for name, part in self.parts.items()}


_TELLING = 20
"""Of attempts that are not yet all counted, so many before their share is held against the limit."""


class UnscorableCounts:
    """Unscorable outcomes by kind and reason, where reasons that differ in a number or an id are one."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.total = 0
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, Unscorable] = {}
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """Count one more outcome."""
        self.total += 1
        if isinstance(outcome, Unscorable):
            self._counts[outcome.group] += 1
            self._examples.setdefault(outcome.group, outcome)

    @property
    def unscorable(self) -> int:
        return self._counts.total()

    def check(self, limit: float, what: str, *, planned: int | None = None) -> None:
        """Stop where figures would be about the infrastructure: too large a share, or a fault that lasts.

        Args:
            limit: the largest share that may be unscorable, the configuration's `tasks.unscorable_limit`.
            what: was attempted, in the plural, for the message.
            planned: attempts that will have been counted in the end, where there are more to come; a share of few says
                little about them.
        """
        for outcome, _ in self.most_common():
            refuse_lasting(outcome, what)
        too_few = planned is not None and self.total < min(_TELLING, planned)
        if self.unscorable > limit * self.total and not too_few:
            outcome, count = self.most_common()[0]
            raise UserError(
                f"{self.unscorable} of {self.total} {what} are unscorable, more than tasks.unscorable_limit={limit:g} "
                f"allows; the commonest reason ({count} times, {outcome.kind}): {outcome.reason}"
            )

    def most_common(self) -> list[tuple[Unscorable, int]]:
        """The first outcome of each group with the group's size, the largest group first."""
        return [(self._examples[group], count) for group, count in self._counts.most_common()]


def refuse_lasting(outcome: Outcome, what: str) -> None:
    """Stop at a fault that every further request would meet, such as an account without money.

    Args:
        what: was attempted, in the plural, for the message.
    """
    if isinstance(outcome, Unscorable) and outcome.kind in LASTING:
        raise UserError(f"{what} stopped at a fault that every further request would meet: {outcome.reason}")
