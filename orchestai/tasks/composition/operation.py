"""What a one-step operation is: its kinds, its program, and the ways in which an instruction may word it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["str", "int", "ints", "words", "dict", "date"]
"""`words` is a list of strings, `ints` a list of integers, `dict` maps strings to integers, `date` is 'YYYY-MM-DD'."""

Value: TypeAlias = Any
"""A plain value of one of the kinds; equal values have equal `repr` except that dicts keep their insertion order."""

_TYPES: dict[Kind, str] = {
    "str": "string",
    "int": "integer",
    "ints": "list",
    "words": "list",
    "dict": "dict",
    "date": "date",
}
_EXAMPLE_WORDINGS = ("for example {} -> {}", "e.g. {} becomes {}", "so {} gives {}", "{} -> {}")


def anything(*args: Value) -> bool:
    """The domain of an operation whose wording covers every argument."""
    return True


def not_empty(x: Value) -> bool:
    """The domain of an operation that needs an item."""
    return len(x) > 0


def not_negative(x: Value) -> bool:
    """The domain of an operation on digits."""
    return x >= 0


@dataclass(frozen=True)
class Phrasing:
    """One wording of an operation, with the one example that always stands beside it.

    Attributes:
        text: an imperative phrase that stands alone.
        span: the phrase and its example; all that a worker sees of the step.
        args: the example's arguments.
    """

    text: str
    span: str
    args: tuple[Value, ...]


@dataclass(frozen=True)
class Operation:
    """One step: a total function on values of its input kinds.

    Attributes:
        name: unique in the catalogue.
        inputs: kinds of the arguments, one or two.
        output: kind of the result.
        noun: how later steps refer to the result, e.g. `the sorted list`.
        source: canonical program, defines `step`.
        phrasings: its wordings.
        domain: on which arguments the wording says what is wanted; no task leads to others.
        commutative: the order of the two arguments does not matter.
    """

    name: str
    inputs: tuple[Kind, ...]
    output: Kind
    noun: str
    source: str
    phrasings: tuple[Phrasing, ...]
    domain: Callable[..., bool] = anything
    commutative: bool = False

    @property
    def task_type(self) -> str:
        """`combine` for two arguments, else the type of the argument."""
        return "combine" if len(self.inputs) > 1 else _TYPES[self.inputs[0]]

    @cached_property
    def function(self) -> Callable[..., Value]:
        """The canonical program, loaded."""
        return load_step(self.source)


def load_step(source: str) -> Callable[..., Value]:
    """The function `step` that `source` (ours, trusted) defines."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["step"]


def unary(
    kind: Kind,
    output: Kind,
    name: str,
    noun: str,
    code: str,
    wordings: Mapping[str, Value],
    *,
    domain: Callable[..., bool] = anything,
) -> Operation:
    """An operation on `x`; `wordings` maps each phrase to its example's argument."""
    source = _source(code, "x")
    phrasings = _phrasings(source, {phrase: (value,) for phrase, value in wordings.items()})
    return Operation(name, (kind,), output, noun, source, phrasings, domain)


def binary(
    kinds: tuple[Kind, Kind],
    output: Kind,
    name: str,
    noun: str,
    code: str,
    wordings: Mapping[str, tuple[Value, Value]],
    *,
    domain: Callable[..., bool] = anything,
    commutative: bool = False,
) -> Operation:
    """An operation on `a` and `b`; `wordings` maps each phrase to its example's arguments."""
    source = _source(code, "a, b")
    return Operation(name, kinds, output, noun, source, _phrasings(source, wordings), domain, commutative)


def _source(code: str, parameters: str) -> str:
    """`code` is a whole function `step`, or lines of imports, if any, and then an expression in the parameters."""
    *imports, expression = code.strip().split("\n")
    if "def step(" in code:
        return code.strip()
    return "\n".join([*imports, f"def step({parameters}):", f"    return {expression}"])


def _phrasings(source: str, wordings: Mapping[str, tuple[Value, ...]]) -> tuple[Phrasing, ...]:
    step = load_step(source)
    phrasings = []
    for index, (text, args) in enumerate(wordings.items()):
        shown = f"`{', '.join(map(repr, args))}`", f"`{step(*args)!r}`"
        example = _EXAMPLE_WORDINGS[index % len(_EXAMPLE_WORDINGS)].format(*shown)
        phrasings.append(Phrasing(text, f"{text} ({example})", args))
    return tuple(phrasings)
