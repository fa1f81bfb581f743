"""Faults of nobody are counted by what they are, and a command ends where there are too many of them."""

from __future__ import annotations

import pickle

import pytest

from orchestai.errors import LASTING, FaultKind, InfrastructureError, UserError
from orchestai.outcome import Outcome, Scored, Unscorable, UnscorableCounts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12.0 s passed, 0.3 s of them in calls", "7 s passed, 11.25 s of them in calls"),
        ("http://127.0.0.1:8000/v1: HTTP 503 after 4 tries", "http://127.0.0.1:43211/v1: HTTP 503 after 2 tries"),
        ("request req_011CSHoEeqs5C35K failed", "request req_0aa2 failed"),
        ("run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone", "run 9b2d77aa-0000-41d3-8a0c-a305e82c33ff is gone"),
        ("at 2026-11-22 09:41:28,123 the server fell", "at 2026-12-01 10:00:00,001 the server fell"),
        ("no recording of m, for the prompt ending in 'a list'", "no recording of m, for the prompt ending in 'b'"),
    ],
)
def test_reasons_that_differ_in_numbers_and_quotations_are_one(one: str, other: str) -> None:
    """Each carried its own times and ids, so the commonest reason of a broken run was counted once."""
    assert Unscorable("timeout", one).group == Unscorable("timeout", other).group
    assert Unscorable("timeout", one).group != Unscorable("server", one).group


def test_reasons_that_say_something_else_are_not_one() -> None:
    reasons = (
        "weak: https://api.one.example/v1: no answer in time",
        "strong: https://api.one.example/v1: no answer in time",
        "weak: https://api.two.example/v1: no answer in time",
        "it's the disk that's full",
        "it's the cache that's full",
    )
    assert len({Unscorable("timeout", reason).group for reason in reasons}) == len(reasons)


def test_the_commonest_reason_is_found_among_reasons_with_times() -> None:
    outcomes: list[Outcome] = [Unscorable("timeout", f"{seconds}.5 s passed") for seconds in range(3)]
    outcomes += [Unscorable("sandbox", "the disk is full")] * 2 + [Scored(0.0)] * 5
    counts = UnscorableCounts(outcomes)
    assert (counts.total, counts.unscorable) == (10, 5)
    assert counts.most_common()[0] == (Unscorable("timeout", "0.5 s passed"), 3)
    counts.check(0.5, "episodes")
    told = r"5 of 10 episodes .*tasks\.unscorable_limit=0\.4 .*\(3 times, timeout\): 0\.5 s passed"
    for planned in (None, 10):
        with pytest.raises(UserError, match=told):
            counts.check(0.4, "episodes", planned=planned)
    counts.check(0.4, "episodes", planned=11)


@pytest.mark.parametrize("kind", sorted(LASTING))
def test_a_fault_that_lasts_stops_at_once(kind: FaultKind) -> None:
    """Without money every task would be tried, and lost."""
    counts = UnscorableCounts([Scored(1.0)] * 99 + [Unscorable(kind, "top up the account")])
    with pytest.raises(UserError, match="top up the account"):
        counts.check(0.2, "executions", planned=1000)


def test_an_infrastructure_error_survives_another_process() -> None:
    error = pickle.loads(pickle.dumps(InfrastructureError("timeout", "no answer")))
    assert (error.kind, str(error)) == ("timeout", "no answer")
    assert Unscorable.of(error) == Unscorable("timeout", "no answer")
