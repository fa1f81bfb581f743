"""From a composition to an instruction: connectives, references and examples, with each step's span known exactly.

A step that names nothing takes the result of the step before it. Every other edge is named: a branch that starts
again says so ("starting again from the input"), one that leaves an earlier value, and every join, names the values
by what they are ("going back to the words", "with the words and the vowel count") or, in numbered lists, at times by
the numbers of their steps. The arguments of a join are named in the order in which their steps are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from orchestai.tasks.composition.graph import INPUT, Composition
from orchestai.tasks.composition.operation import Kind, Phrasing, Value

PARAMETERS: dict[Kind, tuple[str, ...]] = {
    "str": ("text", "sentence", "s"),
    "int": ("number", "n", "value"),
    "ints": ("numbers", "values", "items"),
    "words": ("words", "names", "labels"),
    "dict": ("table", "counts", "scores"),
    "date": ("day", "start", "iso_date"),
}
_KINDS: dict[Kind, str] = {
    "str": "a string",
    "int": "an integer",
    "ints": "a list of integers",
    "words": "a list of strings",
    "dict": "a dictionary from strings to integers",
    "date": "a date in the form 'YYYY-MM-DD'",
}
_OPENINGS = (
    "Write a function `task_func({p})` that takes {kind} and works as follows.",
    "Implement `task_func({p})`, where `{p}` is {kind}.",
    "Define a Python function `task_func({p})`. Its argument is {kind}.",
    "Given {kind} `{p}`, `task_func({p})` should do the following.",
    "We need `task_func({p})`; the input is {kind}.",
)
_FIRST = ("first", "to begin with", "to start", "as the first step")
_NEXT = ("then", "after that", "next", "now", "and then")
_LAST = ("finally", "as the last step", "lastly", "to finish")
_AGAIN = (
    "separately, starting again from the input",
    "independently, from the original `{p}`",
    "also, going back to the input",
    "on another branch, from `{p}` itself",
)
_BACK = ("going back to {a}", "returning to {a}", "from {a} again", "once more using {a}")
_NAMED = ("from {a}", "using {a}", "taking {a}")
_JOIN = ("with {a} and {b}", "taking {a} and {b}", "given {a} and {b}", "using {a} together with {b}")
_STEP_BACK = ("from the result of step {a}", "going back to step {a}")
_STEP_JOIN = ("with the results of steps {a} and {b}", "taking what steps {a} and {b} gave")
_CLOSINGS = (" Return the final result.", " The last value is the result.", " Return what this gives.", "")
_CALLS = (
    " For instance, `{x}` returns `{y}`, and `{z}` returns `{w}`.",
    " For example, `{x}` gives `{y}` and `{z}` gives `{w}`.",
    "\n>>> {x}\n{y}\n>>> {z}\n{w}",
    " Examples: `{x}` -> `{y}`; `{z}` -> `{w}`.",
)


@dataclass(frozen=True)
class Worded:
    """An instruction and the [start, end) character offsets of its steps."""

    text: str
    spans: tuple[tuple[int, int], ...]


def word(
    composition: Composition,
    phrasings: Sequence[Phrasing],
    parameter: str,
    calls: Sequence[tuple[Value, Value]],
    rng: Random,
) -> Worded:
    """Word a composition; `calls` are two inputs with their results, shown at the end."""
    kind = _KINDS[composition.kind]
    text = rng.choice(_OPENINGS).format(p=parameter, kind=kind)
    style = rng.choice((_prose, _prose, _semicolons, _numbered))
    spans = []
    for index, phrasing in enumerate(phrasings):
        before, after = style(index, len(phrasings), _lead(composition, index, parameter, style is _numbered, rng))
        text += before
        spans.append((len(text), len(text) + len(phrasing.span)))
        text += phrasing.span + after
    (first, gives), (second, yields) = calls
    shown = {"x": f"task_func({first!r})", "y": repr(gives), "z": f"task_func({second!r})", "w": repr(yields)}
    ending = rng.choice(_CLOSINGS) + rng.choice(_CALLS).format(**shown)
    return Worded(text + ("\n" + ending.lstrip() if style is _numbered else ending), tuple(spans))


def _lead(composition: Composition, index: int, parameter: str, numbered: bool, rng: Random) -> str:
    """The connective and the reference that come before a step's span; empty in a numbered list that needs none."""
    parents = composition.nodes[index].parents
    reference = _reference(composition, index, parameter, numbered, rng)
    if index == 0:
        connective = "" if numbered else rng.choice(_FIRST)
    elif index == len(composition.nodes) - 1:
        connective = rng.choice(_LAST)
    elif parents == (INPUT,) or (numbered and rng.random() < 0.5) or (reference and rng.random() < 0.5):
        connective = ""
    else:
        connective = rng.choice(_NEXT)
    lead = ", ".join(filter(None, (connective, reference)))
    return lead and f"{lead}, "


def _reference(composition: Composition, index: int, parameter: str, numbered: bool, rng: Random) -> str:
    parents = composition.nodes[index].parents
    if index == 0:
        return ""
    if parents == (INPUT,):
        return rng.choice(_AGAIN).format(p=parameter)
    by_number = numbered and rng.random() < 0.3
    if by_number:
        names = [str(parent + 1) for parent in parents]
    else:
        names = [composition.nodes[parent].operation.noun for parent in parents]
    if len(parents) == 2:
        return rng.choice(_STEP_JOIN if by_number else _JOIN).format(a=names[0], b=names[1])
    if parents != (index - 1,):
        return rng.choice(_STEP_BACK if by_number else _BACK).format(a=names[0])
    return rng.choice(_NAMED).format(a=names[0]) if not by_number and rng.random() < 0.25 else ""


def _prose(index: int, count: int, lead: str) -> tuple[str, str]:
    return " " + lead[:1].upper() + lead[1:], "."


def _semicolons(index: int, count: int, lead: str) -> tuple[str, str]:
    return (" " if index else " Steps: ") + lead, "." if index == count - 1 else ";"


def _numbered(index: int, count: int, lead: str) -> tuple[str, str]:
    return f"\n{index + 1}. {lead}", ""
