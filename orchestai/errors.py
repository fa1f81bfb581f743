"""What goes wrong: by the user's doing, which they can mend, or by nobody's whom we train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pydantic import ValidationError

FaultKind: TypeAlias = Literal[
    "payment",
    "authentication",
    "model",
    "rate_limit",
    "timeout",
    "connection",
    "server",
    "bad_response",
    "bad_request",
    "recording_missing",
    "memory",
    "sandbox",
    "node",
    "task",
    "scorer",
    "tool",
    "internal",
]
"""What failed that is neither the planner's nor a worker's fault.

An account without money, a key that is refused, a model that is not there; too many requests, no answer in time, no
connection, a server's own fault, an answer that is none, a request of ours that a server does not take; a generation
that nobody recorded; memory of this machine, its sandbox, a node of a cluster; a task without usable tests
or answers, a reward function, a tool that is out of order; and whatever nobody has thought of.
"""

LASTING: frozenset[FaultKind] = frozenset({"payment", "authentication", "model"})
"""Every further request meets these until a person acts, so a command that meets one stops."""


class UserError(Exception):
    """Bad input: one line that says what happened, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class InfrastructureError(Exception):
    """Something that is neither the planner's nor the candidate's fault failed: a server, a disk, a time-out of ours.

    Whoever catches it makes the episode `Unscorable`; it is never scored as a zero.
    """

    def __init__(self, kind: FaultKind, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class UnbilledError(InfrastructureError):
    """The same, where nothing was done that could be billed: a server took no request, since there were too many."""


def first_problem(error: ValidationError) -> str:
    """`FIELD: what is wrong with it`, of the first field that is wrong."""
    first = error.errors(include_url=False)[0]
    where, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
