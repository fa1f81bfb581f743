"""Worked examples that few-shot strategies show before the question. None is an operation of the task suites."""

from __future__ import annotations

from dataclasses import dataclass

from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.tasks.visible_examples import Example
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
        _shot("replace every comma in it with a semicolon", "'a,b'", "'a;b'", "return text.replace(',', ';')"),
        _shot("keep its multiples of 5", "[3, 10, 25]", "[10, 25]", "return [n for n in numbers if n % 5 == 0]"),
        _shot("subtract the number from each item", ("[8, 5]", "2"), "[6, 3]", "return [n - number for n in numbers]"),
        _shot("multiply it by 4 and subtract 3", "5", "17", "return number * 4 - 3"),
        _shot("add 1 to each of its values", "{'a': 1}", "{'a': 2}", "return {k: v + 1 for k, v in counts.items()}"),
        _shot(
            "put the second text in brackets after the first", ("'a'", "'b'"), "'a(b)'", "return f'{first}({second})'"
        ),
        _shot("find its shortest word", "['fig', 'to']", "'to'", "return min(words, key=len)"),
        _shot(
            "move the date two weeks back",
            "'2024-03-20'",
            "'2024-03-06'",
            "return (date.fromisoformat(day) - timedelta(weeks=2)).isoformat()",
        ),
    ),
}
"""Sets by the name that `workers.pool.NAME.examples` gives; bodies use the argument names that the head gives them."""


def shots(name: str) -> tuple[Shot, ...]:
    """The set called `name`; raises `UserError` if there is none."""
    if name not in SETS:
        hint = did_you_mean(name, SETS) or f"; there are {', '.join(SETS)}"
        raise UserError(f"workers.pool: no set of worked examples {name!r}{hint}")
    return SETS[name]
