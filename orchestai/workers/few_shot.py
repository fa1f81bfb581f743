"""Worked examples that few-shot strategies show before the question. None is an operation of the task suites."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from orchestai.errors import UserError
from orchestai.tasks.examples import Example
from orchestai.workers.base import Signature


@dataclass(frozen=True)
class Shot:
    """A question, its visible example and the body that answers it."""

    instruction: str
    example: Example
    body: str

    @property
    def signature(self) -> Signature:
        return Signature("step", ("x",) if len(self.example.args) == 1 else ("a", "b"))


def _shot(instruction: str, args: str | tuple[str, ...], result: str, body: str) -> Shot:
    return Shot(instruction, Example((args,) if isinstance(args, str) else args, result), body)


SETS: dict[str, tuple[Shot, ...]] = {
    "general": (
        _shot("replace every comma in it with a semicolon", "'a,b'", "'a;b'", "return x.replace(',', ';')"),
        _shot("keep its multiples of 5", "[3, 10, 25]", "[10, 25]", "return [n for n in x if n % 5 == 0]"),
        _shot("find the position of the second argument in the list", ("['a', 'b']", "'b'"), "1", "return a.index(b)"),
        _shot(
            "swap its keys and values", "{'a': 1, 'b': 2}", "{1: 'a', 2: 'b'}", "return {v: k for k, v in x.items()}"
        ),
        _shot("multiply it by 4 and subtract 3", "5", "17", "return x * 4 - 3"),
    ),
}
"""Sets by the name that `workers.pool.NAME.examples` gives."""


def shots(name: str) -> tuple[Shot, ...]:
    """The set called `name`; raises `UserError` if there is none."""
    if name not in SETS:
        nearest = difflib.get_close_matches(name, SETS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; there are {', '.join(SETS)}"
        raise UserError(f"workers.pool: no set of worked examples {name!r}{hint}")
    return SETS[name]
