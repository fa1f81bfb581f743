"""What an attempt at a task is worth: a score, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scored:
    """The attempt was judged; `value` is its score (for unit tests: the fraction passed, in [0, 1])."""

    value: float


@dataclass(frozen=True, slots=True)
class Unscorable:
    """The attempt could not be judged (a server was down, a recording is missing). Never a zero."""

    reason: str


Outcome: TypeAlias = Scored | Unscorable
