"""What an attempt at a task is worth: a score, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from orchestai.errors import UserError


@dataclass(frozen=True, slots=True)
class Scored:
    """The attempt was judged; `value` is its score (for unit tests: the fraction passed, in [0, 1])."""

    value: float


@dataclass(frozen=True, slots=True)
class Unscorable:
    """The attempt could not be judged (a server was down, a recording is missing). Never a zero."""

    reason: str


Outcome: TypeAlias = Scored | Unscorable


@dataclass(frozen=True, slots=True)
class UnscorableLimit:
    """How many attempts may go unjudged before a command stops, since its figures would be about the infrastructure.

    Attributes:
        share: the largest that is allowed.
        key: of the configuration, which sets it.
    """

    share: float
    key: str

    def check(self, reasons: Counter[str], total: int, what: str) -> None:
        """Stop where too many of `total` are unscorable.

        Args:
            reasons: of those that are.
            what: was attempted, in the plural, for the message.

        Raises:
            UserError: there are more than the limit allows; it names the commonest reason.
        """
        lost = reasons.total()
        if lost > self.share * total:
            reason, count = reasons.most_common(1)[0]
            raise UserError(
                f"{lost} of {total} {what} are unscorable, more than {self.key}={self.share:g} allows; the commonest "
                f"reason ({count} times): {reason}"
            )
