"""What many queries of a table say alike, such as worked examples before each question, and the queries without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LINES: Final = 0.02
"""A line is shared wording where more than this share of all queries have it ..."""
SHINGLES: Final = 0.2
"""... and a few words in a row where more than this share have them, as they may be of a common turn of phrase, ..."""
OF_TYPE: Final = 0.8
"""... or more than this share of the queries of one type, whose instruction they are then, ..."""
_FEWEST = 50
"""... and more than so many: fewer may be questions about one passage."""


def shared_lines(texts: Sequence[str]) -> frozenset[str]:
    """The lines, without space around them, that more than 2 % of the texts (and more than fifty) have."""
    return widespread(({line.strip() for line in text.splitlines()} - {""} for text in texts), len(texts), LINES)


def widespread(parts: Iterable[Collection[T]], texts: int, share: float) -> frozenset[T]:
    """What more than a share of the texts, and more than fifty, have.

    Args:
        parts: of each text, each once.
        texts: how many there are.
    """
    limit = max(_FEWEST, share * texts)
    return frozenset(part for part, count in Counter(part for own in parts for part in own).items() if count > limit)


def without_lines(text: str, lines: Collection[str]) -> str:
    """The text without those lines; as it is where nothing else is in it."""
    kept = "\n".join(line for line in text.splitlines() if line.strip() not in lines).strip()
    return kept or text
