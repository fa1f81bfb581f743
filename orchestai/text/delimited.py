"""What stands between an opening and a closing mark in text of which nothing is known, in time linear in its length."""

from __future__ import annotations

import re
from collections.abc import Iterator


def enclosed(text: str, opening: re.Pattern[str], closing: re.Pattern[str], *, to_end: bool = False) -> Iterator[str]:
    """What stands between each `opening` and the `closing` next after it, in order; nothing is within two of them.

    `opening(.*?)closing` as one expression looks for the end again from every beginning: on a text of beginnings alone,
    its time grows with the square of the length.

    Args:
        to_end: what is never closed reaches to the end of the text; else it is left out.
    """
    position = 0
    while (begin := opening.search(text, position)) is not None:
        end = closing.search(text, begin.end())
        if end is None:
            if to_end:
                yield text[begin.end() :]
            return
        yield text[begin.end() : end.start()]
        position = end.end()
