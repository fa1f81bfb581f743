"""Comparing answers: when two say the same, and what kind of answer one is, by what is seen of it alone."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from orchestai.plugins import find_object
from orchestai.text.spoken import is_refusal
from orchestai.text.syntax import parse_literal, parse_python


class Answer(NamedTuple):
    """What is seen of a reply: answers that say the same have the same `key`, and `shown` is what kind one is."""

    key: Hashable
    shown: str


Comparator: TypeAlias = Callable[[str, str], Answer]
"""Gives the answer that a reply, the second text, gives to a query, the first one."""
NONE: Final = "none"
REFUSED: Final = "refused"
"""Kinds of answers that are not right, by what is seen: there is none, or it fails a check."""

_PUNCTUATION = re.compile(r"[\s,./\-_*^\"']")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **{"integer": (int,), "string": (str,), "boolean": (bool,)},
    **dict.fromkeys(("float", "number"), (int, float)),
    **dict.fromkeys(("array", "tuple"), (list, tuple)),
    **dict.fromkeys(("dict", "object"), (dict,)),
}
_Call: TypeAlias = tuple[str, dict[str, Any]]


def compare_calls(query: str, reply: str) -> Answer:
    """Calls of functions, in any order, whose definitions are a JSON list that ends the query.

    A reply is calls if it holds nothing else, as Python or JSON. Names are equal but for dots and case, texts but for
    case, space and punctuation.
    """
    calls = _calls(reply.strip())
    if not calls:
        return Answer(NONE, NONE)
    key = frozenset(Counter((_name(name), _plain(arguments)) for name, arguments in calls).items())
    try:  # the functions that the query lists behind its words
        listed = json.loads(query[query.rfind("\n[") + 1 :])
    except ValueError:
        listed = []
    described = [one for one in listed if isinstance(one, dict) and "name" in one]
    functions = {_name(one["name"]): one.get("parameters", {}) for one in described}
    if functions and not all(_fits(arguments, functions.get(_name(name))) for name, arguments in calls):
        return Answer(key, REFUSED)
    return Answer(key, "a call" if len(calls) == 1 else "calls")


def _calls(reply: str) -> list[_Call]:
    tagged = re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", reply, re.DOTALL)
    named = re.fullmatch(r"([\w.]+)\n(\{.*\})", reply, re.DOTALL)
    try:
        if tagged:
            return [call for one in tagged for call in _json_calls(json.loads(one))]
        if named:
            return [(named[1], json.loads(named[2]))]
        return _json_calls(json.loads(reply))
    except (ValueError, TypeError, AttributeError):
        pass
    try:
        parsed = parse_python(reply if reply.startswith("[") else f"[{reply}]", mode="eval").body
        nodes = parsed.elts if isinstance(parsed, ast.List) else []
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if texts and len(texts) == len(nodes):
            return [call for text in texts for call in _calls(text)]
        calls: list[_Call] = []
        for node in nodes:
            if not isinstance(node, ast.Call):
                return []
            arguments = [(str(place), value) for place, value in enumerate(node.args)]
            arguments += [(str(keyword.arg), keyword.value) for keyword in node.keywords]
            calls.append((ast.unparse(node.func), {name: _literal(value) for name, value in arguments}))
        return calls
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []


def _json_calls(found: Any) -> list[_Call]:
    """Of `{"tool_calls": [...]}`, `{"name": ..., "arguments": {...}}` and `{NAME: {...}}`, alone or in a list."""
    if isinstance(found, dict):
        found = found.get("tool_calls", [found])
    calls: list[_Call] = []
    for one in found:
        pairs = [(one["name"], one["arguments"])] if {"name", "arguments"} <= one.keys() else one.items()
        calls += [(str(name), json.loads(own) if isinstance(own, str) else dict(own)) for name, own in pairs]
    return calls


def _literal(node: ast.expr) -> Any:
    written = ast.unparse(node)
    try:
        return parse_literal(written)
    except (ValueError, TypeError):
        return written


def _name(name: str) -> str:
    return name.replace(".", "_").lower()


def _plain(value: Any) -> Hashable:
    match value:
        case dict():
            return frozenset((str(name), _plain(own)) for name, own in value.items())
        case list() | tuple():
            return tuple(map(_plain, value))
        case bool() | None:
            return value, "constant"
        case int() | float():
            return float(value)
    return _PUNCTUATION.sub("", str(value)).lower()


def _fits(arguments: dict[str, Any], schema: dict[str, Any] | None) -> bool:
    """Whether all that the function requires is there, and what is there is known and of its type."""
    if schema is None or not set(schema.get("required", ())) <= arguments.keys():
        return False
    known = schema.get("properties", {})
    return arguments.keys() <= known.keys() and all(_is_of(value, known[name]) for name, value in arguments.items())


def _is_of(value: Any, wanted: dict[str, Any]) -> bool:
    kinds = _TYPES.get(str(wanted.get("type")).lower(), (object,))
    allowed = isinstance(value, kinds) and (not isinstance(value, bool) or kinds[0] in (bool, object))
    return allowed and value in (wanted.get("enum") or [value])


_UNSEEN = re.compile(r"\\(left|right|text|mathrm|boxed|circ|[!,;% $])|[$°{}\s]|(?<=\d),(?=\d{3})")
"""What a number does not depend on: how LaTeX sets it, its unit, and the commas of thousands."""


def compare_numbers(_: str, reply: str) -> Answer:
    """A number, equal however it is written, or else a formula."""
    text = re.sub(r"(?<=\d) [A-Za-z ]+$", "", reply.strip())
    text = re.sub(r"\\[dt]?frac\{?(\w+)\}?\{?(\w+)\}?", r"\1/\2", re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", text))
    text = re.sub(r"^[a-zA-Z]=|[.%]+$", "", _UNSEEN.sub("", text))
    if not text:
        return Answer(NONE, NONE)
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Answer(text.lower(), "formula")
    return Answer(value, "integer" if value.denominator == 1 else "fraction")


def compare_texts(_: str, reply: str) -> Answer:
    """Words: equal but for case, space and punctuation."""
    text = _PUNCTUATION.sub("", reply).lower()
    return Answer(text, REFUSED if is_refusal(reply) else "text") if text else Answer(NONE, NONE)


COMPARATORS: Final[dict[str, Comparator]] = {
    "calls": compare_calls,
    "numbers": compare_numbers,
    "texts": compare_texts,
}


def find_comparator(name: str) -> Comparator:
    """The comparator of a kind of answers, or a user's `MODULE:FUNCTION`.

    Raises:
        ImportError, AttributeError, ValueError: there is none.
    """
    return COMPARATORS.get(name) or find_object(name)
