"""Whether tests that rest on functions of the program's own are earned; see `static/helper_tests.py`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from orchestai.errors import InfrastructureError
from orchestai.sandbox.program import Program
from orchestai.sandbox.static.helper_tests import KINDS, HelperTests, Variant

_REPEATS = 2
"""Runs of each variant: what answers at random answers differently."""
_SALTS = 1 << 16


_TOO_SHORT_S = 0.02


class Unearned(NamedTuple):
    """Tests that passed: `forged`, whatever a helper was asked; `fickle`, not each time; `unchecked`: no time."""

    forged: set[str]
    fickle: set[str]
    unchecked: set[str]


def find_unearned(
    judge: Callable[[Program, Sequence[str], float], dict[str, Any]],
    program: Program,
    tests: HelperTests,
    passed: set[str],
    seconds: float,
) -> Unearned:
    """Run the variants of the tests that `passed`, and these tests again, in an order that nobody knows beforehand.

    A program that says yes with probability p to whatever it is asked gets a test with one helper with probability
    p^7 ((p^2 + (1-p)^2)^3 - p^6), which is at most 0.012.

    Args:
        judge: see `ServerPool.judge`.
        seconds: for all runs together. A run has half of what is left: a helper may hang when it is asked otherwise.

    Raises:
        InfrastructureError: the sandbox could not judge.
    """
    unearned = Unearned(set(), set(), set())
    give_up = time.monotonic() + seconds
    chance = secrets.SystemRandom()
    sources = [tests.source(kind, chance.randrange(_SALTS)) for kind in range(KINDS)]

    def passes(kind: int, names: Sequence[str]) -> set[str]:
        verdict = judge(replace(program, tests=sources[kind]), names, (give_up - time.monotonic()) / 2)
        if verdict["status"] == "infra_error":
            raise InfrastructureError("sandbox", verdict["reason"])
        outcomes = {name: test["outcome"] for name, test in zip(names, verdict.get("tests", ()), strict=False)}
        late = [name for name in names if outcomes.get(name) == "not_run"]
        more = passes(kind, late) if 0 < len(late) < len(names) else set()
        return more | {name for name, outcome in outcomes.items() if outcome == "passed"}

    for variants in _rounds(tests.variants, passed):
        originals = {variant.original for variant in variants}
        names = [*originals, *(variant.name for variant in variants)]
        runs: dict[int, list[set[str]]] = {kind: [] for kind in range(KINDS)}
        for kind in chance.sample([*runs] * _REPEATS, KINDS * _REPEATS):
            if time.monotonic() > give_up - _TOO_SHORT_S:
                unearned.unchecked.update(originals)
                break
            runs[kind].append(passes(kind, chance.sample(names, len(names))))
        if originals <= unearned.unchecked:
            continue
        unearned.fickle.update(*(originals - yes for kind in runs for yes in runs[kind]))
        for name, original in variants:
            said = [[name in yes for yes in runs[kind]] for kind in runs]
            if all(map(all, said)):
                unearned.forged.add(original)
            elif any(any(answers) and not all(answers) for answers in said):
                unearned.fickle.add(original)
    return unearned


def _rounds(variants: Sequence[Variant], passed: set[str]) -> Iterator[list[Variant]]:
    """Variants of the tests that passed; in a round at most one of each, so that it takes no longer than these."""
    of_tests = [list(group) for test, group in groupby(variants, lambda variant: variant.original) if test in passed]
    for variants_of_round in zip_longest(*of_tests):
        yield [variant for variant in variants_of_round if variant is not None]
