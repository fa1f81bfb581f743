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
    """

    name: str
    inputs: tuple[Kind, ...]
    output: Kind
    noun: str
    source: str
    phrasings: tuple[Phrasing, ...]

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


def unary(kind: Kind, output: Kind, name: str, noun: str, code: str, wordings: Mapping[str, Value]) -> Operation:
    """An operation on `x`; `wordings` maps each phrase to its example's argument."""
    return _operation((kind,), output, name, noun, code, {phrase: (value,) for phrase, value in wordings.items()})


def binary(
    kinds: tuple[Kind, Kind], output: Kind, name: str, noun: str, code: str, wordings: Mapping[str, tuple[Value, Value]]
) -> Operation:
    """An operation on `a` and `b`; `wordings` maps each phrase to its example's arguments."""
    return _operation(kinds, output, name, noun, code, wordings)


def _operation(
    inputs: tuple[Kind, ...], output: Kind, name: str, noun: str, code: str, wordings: Mapping[str, tuple[Value, ...]]
) -> Operation:
    """`code` is lines of imports, if any, then an expression in the parameters; or a whole function `step`."""
    source = code.strip()
    if "def step(" not in source:
        *imports, expression = source.split("\n")
        parameters = "x" if len(inputs) == 1 else "a, b"
        source = "\n".join([*imports, f"def step({parameters}):", f"    return {expression}"])
    step = load_step(source)
    phrasings = []
    for index, (text, args) in enumerate(wordings.items()):
        shown = f"`{', '.join(map(repr, args))}`", f"`{step(*args)!r}`"
        example = _EXAMPLE_WORDINGS[index % len(_EXAMPLE_WORDINGS)].format(*shown)
        phrasings.append(Phrasing(text, f"{text} ({example})", args))
    return Operation(name, inputs, output, noun, source, tuple(phrasings))
