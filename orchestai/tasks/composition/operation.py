"""What a one-step operation is: its kinds, its program, and the ways in which an instruction may word it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

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
        domain: on which arguments the wording says what is wanted; no task leads to others.
        commutative: the order of the two arguments does not matter.
    """

    name: str
    inputs: tuple[Kind, ...]
    output: Kind
    noun: str
    source: str
    phrasings: tuple[Phrasing, ...]
    domain: Callable[..., bool]
    commutative: bool

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


def _operation(name: str, kinds: str, noun: str, code: str, wordings: dict[str, Any], **other: Any) -> Operation:
    """An entry of the catalogue."""
    inputs, output = (tuple(part.split(", ")) for part in kinds.split(" -> "))
    parameters = "x" if len(inputs) == 1 else "a, b"
    *imports, expression = code.strip().split("\n")
    source = "\n".join([*imports, f"def step({parameters}):", f"    return {expression}"])
    source = code.strip() if "def step(" in code else source
    step, phrasings = load_step(source), []
    for index, (text, value) in enumerate(wordings.items()):
        args = (value,) if len(inputs) == 1 else tuple(value)
        shown = f"`{', '.join(map(repr, args))}`", f"`{step(*args)!r}`"
        example = _EXAMPLE_WORDINGS[index % len(_EXAMPLE_WORDINGS)].format(*shown)
        phrasings.append(Phrasing(text, f"{text} ({example})", args))
    domain = eval(f"lambda {parameters}: {other.get('domain', True)}")
    commutative = other.get("commutative", False)
    return Operation(name, inputs, output[0], noun, source, tuple(phrasings), domain, commutative)  # type: ignore[arg-type]


_CATALOGUE = yaml.load(
    (files(__package__) / "catalogue.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)
EVERY: tuple[Operation, ...] = tuple(_operation(name, **entry) for name, entry in _CATALOGUE.items())
"""The operations of `catalogue.yaml`, by the type of what they work on."""
