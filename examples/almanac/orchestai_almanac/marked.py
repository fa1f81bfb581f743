"""Marked text: `[0|the river Orrin]` says that these words are the words of step 0. Marks may be nested and shared."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\[(\d+(?:,\d+)*)\||\]")


def read_marks(marked: str) -> tuple[str, dict[int, tuple[int, int]]]:
    """The plain text, and by step the [start, end) offsets of its words.

    Raises:
        ValueError: a bracket has no partner, or a step has words in two places.
    """
    text = ""
    spans: dict[int, tuple[int, int]] = {}
    opened: list[tuple[list[int], int]] = []
    place = 0
    for token in _TOKEN.finditer(marked):
        text += marked[place : token.start()]
        place = token.end()
        if token[1]:
            opened.append(([int(number) for number in token[1].split(",")], len(text)))
        elif opened:
            numbers, start = opened.pop()
            for number in numbers:
                if number in spans:
                    raise ValueError(f"step {number} is marked twice: {marked!r}")
                spans[number] = start, len(text)
        else:
            raise ValueError(f"a mark is closed that was not opened: {marked!r}")
    if opened:
        raise ValueError(f"a mark is not closed: {marked!r}")
    return text + marked[place:], spans
