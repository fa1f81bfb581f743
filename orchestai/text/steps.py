"""The steps of a plan in what a model wrote: JSON, or nearly so, of which no step is lost without a word."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=lambda pairs: _object(pairs))
_OPENS = re.compile(r"\{|\[(?=\s*\{)")
_STEP_WORDS = re.compile(r"(?<![\w\\])['\"“”]?(?:instruction|depends_on|id)['\"“”]?\s*:")
_LIST = re.compile(r"[\"'\w]\s*:\s*\[(?!\s*\d+\s*\])|\[(?=\s*\{)")
_NEEDS = re.compile(
    r"(?i)(?!dependents?$)(dep(s|[en][\w -]*on|end[\w -]*)|pre(req|dec)\w*|parent\w{0,4}|\w+_from|requires|needs|after)"
)
_NEEDED_BY = re.compile(r"(?i)dependents?|successors?|children|next(_?steps?)?|(required|needed|used)_?by")
"""Other names for `depends_on`, and for its reverse."""
_BETWEEN_STEPS = " \t\r\n,`"
_FOREIGN = re.compile(
    r"""(?P<json>"(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|\#[^\n]*
    |(?:'(?P<single>(?:[^'\\\n]|\\[^\n])*)'|[“”](?P<curly>[^"“”\\\n]*)[“”])(?=\s*[,:\]}])
    |(?P<word>None|True|False)(?=\s*[,\]}])|(?<=[{,\s])(?P<key>[A-Za-z_]\w*)(?=\s*:)""",
    re.DOTALL | re.VERBOSE,
)
"""What is JSON's in other languages, or in none: Python's and JavaScript's texts, words and keys, and comments."""
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=[\s,]*[\]}])', re.DOTALL)
_MOST_UNREADABLE = 100
"""Braces that begin no JSON object, after which no further one is sought: each may be read far in vain."""


class StepError(Exception):
    """A step cannot be read, or would be lost; the message says which."""


def read_steps(text: str) -> tuple[list[Any], bool]:
    """The steps of the last whole plan in a text, else all steps in it, and whether a further one is cut off.

    Raises:
        StepError: a step is no JSON, or would be lost.
    """
    if text.startswith('"'):
        with suppress(ValueError, RecursionError):
            text = str(json.loads(text))
    try:
        return _scan(text)
    except StepError:  # perhaps a step is JSON without comments, and without commas that end nothing
        before = min((place for mark in "[{" if (place := text.find(mark)) >= 0), default=0)
        without = _FOREIGN.sub(_as_json, text[before:])
        return _scan(text[:before] + _LAST_COMMA.sub(lambda match: match[1] or "", without))


def _as_json(match: re.Match[str]) -> str:
    """What a match of `_FOREIGN` is in JSON."""
    kind = match.lastgroup
    said = match[kind] if kind else " "
    if kind == "json":  # as JavaScript, and no JSON, escapes quotation marks
        return re.sub(r"\\(.)", lambda pair: pair[1] if pair[1] in "'`" else pair[0], said, flags=re.DOTALL)
    if kind == "single":
        said = re.sub(r"\\'|\\?\"", lambda quote: "'" if "'" in quote[0] else '\\"', said)
    if kind == "word":
        return {"None": "null", "True": "true", "False": "false"}[said]
    return f'"{said}"' if kind in ("single", "curly", "key") else said


def _scan(text: str) -> tuple[list[Any], bool]:
    """The steps of the last whole plan in a text, else all steps in it, and whether a further one is cut off."""
    plan: list[Any] | None = None
    loose: list[dict[str, Any]] = []
    cut_off = within = False
    position = unreadable = last = 0

    def pass_over(gap: str) -> None:
        """Note what stands before a step or the end: within a list, no words, which may be another step."""
        nonlocal within
        if not within and (begins := _LIST.search(gap)):
            within, gap = True, gap[begins.end() :]
        words, closed, _ = gap.partition("]")
        if within and words.strip(_BETWEEN_STEPS):
            raise StepError(f"step {len(loose) + 1} is no JSON: {words.strip(_BETWEEN_STEPS)[:80]!r}")
        within = within and not closed

    while (begins := _OPENS.search(text, position)) is not None:
        position = begins.start()
        if unreadable == _MOST_UNREADABLE:
            if _STEP_WORDS.search(text, position):
                raise StepError("too much that is no JSON stands before further steps")
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
            entries = _steps(value)
        except (ValueError, RecursionError) as error:  # the former also for numbers that are too long to be read
            end, unreadable = position + 1, unreadable + 1
            following = text.find("{", end)
            if text[position] == "{" and following < 0 and "}" not in text[end:]:
                cut_off = True
            elif text[position] == "{" and _STEP_WORDS.search(text, end, following if following >= 0 else len(text)):
                raise StepError(f"step {len(loose) + 1} is no JSON: {error}") from None
        else:
            if entries is not None:
                if (plan or loose) and _ids(plan or loose).isdisjoint(_ids(entries)):
                    raise StepError("the last plan lacks the steps before it")
                plan, loose, within = entries, [], False
            elif _is_step(value) or (isinstance(value, dict) and "id" in value):
                pass_over(text[last:position])
                loose.append(value)
            last = end
        position = end
    if plan is not None and loose:
        raise StepError("after a whole plan there are further steps")
    if loose:
        pass_over(text[last:].partition("{" if cut_off else "}")[0])
    return plan or loose, cut_off and plan is None


def _ids(steps: Sequence[Any]) -> set[str]:
    return {str(step.get("id")) for step in steps if isinstance(step, dict)}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; raises `StepError` where it says two things under one key, or what comes after a step."""
    if "instruction" in (keys := dict(pairs)):
        if wrong := next((key for key in keys if _NEEDED_BY.fullmatch(key) and keys[key]), None):
            raise StepError(f"a step says {wrong!r}; say depends_on, of the steps that need it")
        pairs = [("depends_on" if _NEEDS.fullmatch(key) else key, value) for key, value in pairs]
    entry = dict(pairs)
    if twice := next((key for key, value in pairs if entry[key] is not value and entry[key] != value), None):
        raise StepError(f"an object has two values of {twice!r}")
    return entry


def _steps(value: Any) -> list[Any] | None:
    """The list of steps that a value is, or holds under whatever name, be it as a text of JSON.

    Raises:
        StepError: it holds several, or a step within a step.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and "instruction" in value:
        try:
            value = _DECODER.decode(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list) and any(map(_is_step, value)):
        for step in value:
            if isinstance(step, dict) and _steps(list(step.values())):
                raise StepError(f"subtask {step.get('id')!r} holds further steps")
        return value
    if isinstance(value, dict) and _is_step(value) and ("depends_on" in value or "subtasks" not in value):
        _steps([value])
        return None
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [steps for inner in inside if (steps := _steps(inner))]
    if len(found) > 1:
        raise StepError("steps stand in several lists")
    return found[0] if found else None


def _is_step(entry: Any) -> bool:
    return isinstance(entry, dict) and not {"instruction", "depends_on"}.isdisjoint(entry)
