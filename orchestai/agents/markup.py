"""What workflows read from a role's words: tags, verdicts and code. Whatever a model wrote, reading it never fails."""

from __future__ import annotations

import re

from orchestai.sandbox.fences import fenced
from orchestai.text.delimited import enclosed
from orchestai.workers.prompting import source

_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]|[\ud800-\udfff]")


def tagged(text: str, tag: str) -> str | None:
    """What stands in the last `<tag>...</tag>`, stripped; None where there is none."""
    found = all_tagged(text, tag)
    return found[-1] if found else None


def all_tagged(text: str, tag: str) -> list[str]:
    """What stands in each `<tag>...</tag>`, stripped, in order."""
    opening, closing = (re.compile(f"<{slash}{tag}>", re.IGNORECASE) for slash in ("", "/"))
    return [content.strip() for content in enclosed(text, opening, closing)]


def verdict(text: str, yes: str, no: str) -> bool | None:
    """Which of two words the last `<verdict>` says; None where it says neither."""
    said = (tagged(text, "verdict") or "").casefold()
    return {yes.casefold(): True, no.casefold(): False}.get(said)


def verdict_reward(said: bool | None, score: float) -> float:
    """What a verdict on something of `score` in [0, 1] is worth: the score if it approves, its complement if not.

    The expectation is largest for whoever approves exactly what is worth more than a half. No verdict is worth nothing.
    """
    return 0.0 if said is None else score if said else 1 - score


def program(text: str) -> str:
    """The Python in a reply (its fence, if it has one), under the imports of well-known names that it forgot."""
    return source.with_imports(fenced(text) or text)


def shown(text: str, limit: int) -> str:
    """`text` as another role may read it: no control characters, and at most `limit` characters, the middle cut out."""
    text = _UNPRINTABLE.sub("�", text)
    if len(text) <= limit:
        return text
    kept = max(limit // 2, 1)
    return f"{text[:kept]}\n[{len(text) - 2 * kept} characters left out]\n{text[-kept:]}"
