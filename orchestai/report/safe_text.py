"""Text of models, written where it can do nothing: inside a script element of a page, and on a terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

MOST_CHARACTERS: Final = 20_000
"""What the page keeps of one text; the log has the rest."""
_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_MARKUP_PATTERN = re.compile("[<>&]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def script_json(value: Any) -> str:
    """JSON in ASCII without `<`, `>` and `&`, so that no text ends the script element that it lies in.

    U+2028 and half surrogate pairs are escapes, too.
    """
    text = json.dumps(showable(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return _MARKUP_PATTERN.sub(lambda found: _MARKUP[found[0]], text)


def visible(text: str) -> str:
    """One line for a terminal or a title: controls, ends of lines and marks of direction appear as their codes."""
    return _CONTROLS.sub(_code, text)


def visible_lines(text: str) -> str:
    """Several lines for a terminal, likewise; ends of lines and tabs stay."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in "\n\t" else _code(found), text)


def _code(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its beginning and how much is missing."""
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} more characters are in the log]"


def showable(value: Any) -> Any:
    """JSON-ready data in which every text is `shortened`, and NaN and infinities, which no browser reads, are null."""
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): showable(item) for key, item in value.items()}
    return [showable(item) for item in value] if isinstance(value, list | tuple) else value
