"""What many queries of a table say alike, such as worked examples before each question, and the queries without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

SHARED: Final = 0.02
"""A line is shared wording where more than this share of all queries have it ..."""
_FEWEST = 50
"""... and more than so many: fewer may be questions about one passage."""


def shared_lines(texts: Sequence[str]) -> frozenset[str]:
    """The lines, without space around them, that more than 2 % of the texts (and more than fifty) have."""
    counts = Counter(line for text in texts for line in {line.strip() for line in text.splitlines()})
    limit = max(_FEWEST, SHARED * len(texts))
    return frozenset(line for line, count in counts.items() if line and count > limit)


def without_lines(text: str, lines: Collection[str]) -> str:
    """The text without those lines; as it is where nothing else is in it."""
    kept = "\n".join(line for line in text.splitlines() if line.strip() not in lines).strip()
    return kept or text
