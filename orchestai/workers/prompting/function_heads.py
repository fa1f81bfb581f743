"""A subtask as the head of a Python function: worded so that a small model completes it well.

Measured on SmolLM2-135M and the composition suite's operations, one greedy answer each: a head `step(x)` with types
22 % right; arguments named after what they hold 32 %; the function named after the instruction as well 36 %; `it` in
the instruction replaced by what it is as well 44 %.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_literal
from orchestai.workers.base import Signature

_NOUNS = {
    "text": "the text",
    "number": "the number",
    "numbers": "the list",
    "words": "the list",
    "counts": "the dictionary",
    "day": "the date",
}
_SMALL_WORDS = frozenset(["it", "its", "the", "of", "a", "an", "each", "to", "into", "from"])
_WORDS_IN_NAME = 4
_LONGEST_STEP = 200
"""Longer instructions (a whole task) keep the function's name, their own words and the examples among them."""
_WISH = re.compile(
    r"^(?:\w+ ){1,6}(?:\w+-)?(?:function|funktion)(?: (?:called |named |namens )?\W?\w+\W?(?:\([\w, ]*\))?)??,? "
    r"(?:that|which|to|die) ",
    re.IGNORECASE,
)
"""What stands before the words that say what the function does."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EXAMPLE = re.compile(r"\([^()`]*`")


@dataclass(frozen=True)
class Head:
    """Where a model begins.

    Attributes:
        name: of the function; not always the one that is wanted.
        parameters: their names.
        instruction: in words, without its example; empty where only the docstring should say it.
        code: `def` line and docstring, ending in a newline.
    """

    name: str
    parameters: tuple[str, ...]
    instruction: str
    code: str


def make_head(signature: Signature, instruction: str, examples: Sequence[Example]) -> Head:
    """The head for a subtask with these visible examples; without usable ones, the bare signature and docstring."""
    words = _WISH.sub("", without_example(instruction).rstrip("."))
    kinds = [_kind(arg) for arg in examples[0].args] if examples else []
    if len(kinds) != len(signature.parameters) or len(words) > _LONGEST_STEP or "" in kinds:
        shown = () if len(words) > _LONGEST_STEP else examples
        return Head(signature.name, signature.parameters, "", _code(signature.name, signature.parameters, words, shown))
    distinct = len(set(kinds)) == len(kinds)
    parameters = tuple(kinds) if distinct else tuple(f"{kind}{i + 1}" for i, kind in enumerate(kinds))
    if len(kinds) == 2 and not distinct:
        parameters = ("first", "second")
    if len(kinds) == 1:
        noun = _NOUNS[kinds[0]]
        words = re.sub(r"\bit\b", noun, re.sub(r"\bits\b", f"{noun}'s", words))
    name = _function_name(words) or signature.name
    return Head(name, parameters, words, _code(name, parameters, words, examples))


def without_example(instruction: str) -> str:
    """The instruction without the example in brackets at its end."""
    stripped = instruction.rstrip()
    begin = _EXAMPLE.search(stripped) if stripped.endswith(")") else None
    return stripped[: begin.start()].rstrip() if begin else instruction


def call(name: str, example: Example) -> str:
    return f"{name}({', '.join(example.args)})"


def _function_name(words: str) -> str:
    kept = [word for word in re.findall(r"[a-z]{2,}", words.lower()) if word not in _SMALL_WORDS]
    name = "_".join(kept[:_WORDS_IN_NAME])
    return name if name.isidentifier() and not keyword.iskeyword(name) else ""


def _code(name: str, parameters: Sequence[str], words: str, examples: Sequence[Example]) -> str:
    types = [_annotation(arg) for arg in examples[0].args] if examples else []
    result = _annotation(examples[0].result) if examples else ""
    if len(types) == len(parameters) and result and all(types):
        typed = ", ".join(f"{parameter}: {kind}" for parameter, kind in zip(parameters, types, strict=True))
        definition = f"def {name}({typed}) -> {result}:"
    else:
        definition = f"def {name}({', '.join(parameters)}):"
    text = f"{words[:1].upper()}{words[1:]}."
    if examples:
        text += "\n"
    for example in examples:
        text += f"\n    >>> {call(name, example)}\n    {example.result}"
    quoted = text.replace("\\", "\\\\").replace('"""', "'''").replace("\0", " ")
    return f'{definition}\n    """{quoted}\n    """\n'


def _kind(literal: str) -> str:
    value = parse_literal(literal)
    if isinstance(value, str):
        return "day" if _DATE.fullmatch(value) else "text"
    if isinstance(value, int):
        return "number"
    if isinstance(value, dict):
        return "counts"
    if isinstance(value, list):
        return "words" if all(isinstance(item, str) for item in value) else "numbers"
    return ""


def _annotation(literal: str) -> str:
    """Type of a literal as an annotation; empty where it is not plain."""
    value = parse_literal(literal)
    if isinstance(value, list):
        inner = {type(item).__name__ for item in value}
        return f"list[{inner.pop()}]" if len(inner) == 1 else "list"
    if isinstance(value, dict):
        inner = {f"{type(key).__name__}, {type(item).__name__}" for key, item in value.items()}
        return f"dict[{inner.pop()}]" if len(inner) == 1 else "dict"
    return "" if value is None else type(value).__name__
