"""What a one-step operation is: its kinds, its program, and the ways in which an instruction may word it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        needs_items: the wording leaves open what an empty argument gives, so that no task may lead to one.
        commutative: the order of the two arguments does not matter.
    """

    name: str
    inputs: tuple[Kind, ...]
    output: Kind
    noun: str
    source: str
    phrasings: tuple[Phrasing, ...]
    needs_items: bool = False
    commutative: bool = False

    def accepts(self, args: Sequence[Value]) -> bool:
        """Whether the wording says what these arguments give."""
        return not self.needs_items or all(not hasattr(arg, "__len__") or len(arg) > 0 for arg in args)

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
    needs_items: bool = False,
) -> Operation:
    """An operation on `x`; `wordings` maps each phrase to its example's argument."""
    source = _source(code, "x")
    phrasings = _phrasings(source, {phrase: (value,) for phrase, value in wordings.items()})
    return Operation(name, (kind,), output, noun, source, phrasings, needs_items=needs_items)


def binary(
    kinds: tuple[Kind, Kind],
    output: Kind,
    name: str,
    noun: str,
    code: str,
    wordings: Mapping[str, tuple[Value, Value]],
    *,
    commutative: bool = False,
) -> Operation:
    """An operation on `a` and `b`; `wordings` maps each phrase to its example's arguments."""
    source = _source(code, "a, b")
    return Operation(name, kinds, output, noun, source, _phrasings(source, wordings), commutative=commutative)


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
