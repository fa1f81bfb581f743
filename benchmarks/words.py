"""Words, sentence lengths and longest paragraphs of README and docs, beside what they may have.

    python -m benchmarks.words [--check] [--pages]

Words are counted as a reader sees them, code and tables included, pipes and comments not. Sentences and paragraphs are
prose alone: no code, table or heading. README counts up to its reference table, docs without `docs/seeds.md` and the
API reference. With `--check` the exit status is 1 where a figure exceeds its ceiling, which may only fall to its goal.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
UNCOUNTED = {"docs/seeds.md", "docs/api.md"}
GOALS = {
    "README: words": 700,
    "docs: words": 25_000,
    "words per sentence": 18,
    "sentences over 35 words (%)": 5,
    "longest paragraph": 120,
}
CEILINGS: dict[str, float] = {"docs: words": 41500}
"""What a figure above its goal had last."""
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```[^\n]*\n?|^(?: {4}[^\n]*\n)+", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\)?\s+(?=[\"'(`*\[]*[A-Z])")


class PageFigures(NamedTuple):
    """Words of a page, and those of each of its sentences and paragraphs."""

    words: int
    sentences: list[int]
    paragraphs: list[int]


def count(text: str) -> int:
    """Words that have a letter or digit."""
    return sum(any(map(str.isalnum, word)) for word in re.sub(r"\]\([^)]*\)", "]", text).split())


def measure(text: str) -> PageFigures:
    visible = _HIDDEN.sub("", text)
    prose = _ITEM.sub("\n\n", _CODE.sub("\n\n", visible))
    blocks = [block for block in re.split(r"\n\s*\n", prose) if not block.lstrip().startswith(("#", "|", "!["))]
    paragraphs = [words for block in blocks if (words := count(block))]
    sentences = [words for block in blocks for part in _SENTENCE_END.split(block) if (words := count(part))]
    return PageFigures(count(visible), sentences, paragraphs)


def pages() -> dict[str, PageFigures]:
    """README up to its reference table, then the pages of docs, by path."""
    found = {"README.md": measure((ROOT / "README.md").read_text().partition("## What lies where")[0])}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name not in UNCOUNTED and not name.startswith("docs/_build/"):
            found[name] = measure(path.read_text())
    return found


def totals(found: dict[str, PageFigures]) -> dict[str, float]:
    sentences = [words for page in found.values() for words in page.sentences]
    return {
        "README: words": found["README.md"].words,
        "docs: words": sum(page.words for name, page in found.items() if name != "README.md"),
        "words per sentence": round(sum(sentences) / len(sentences), 1),
        "sentences over 35 words (%)": round(100 * sum(words > 35 for words in sentences) / len(sentences), 1),
        "longest paragraph": max(words for page in found.values() for words in page.paragraphs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure exceeds its ceiling")
    parser.add_argument("--pages", action="store_true", help="show each page, too")
    options = parser.parse_args(arguments)
    found = pages()
    if options.pages:
        for name, page in sorted(found.items(), key=lambda item: -item[1].words):
            mean, longest = sum(page.sentences) / max(1, len(page.sentences)), max(page.paragraphs, default=0)
            print(f"{name}: {page.words} words, {mean:.1f} a sentence, longest paragraph {longest}")
    over = 0
    for name, value in totals(found).items():
        ceiling = max(GOALS[name], CEILINGS.get(name, 0))
        over += value > ceiling
        print(f"{name}: {value:,} (goal {GOALS[name]:,}, ceiling {ceiling:,}){' TOO MANY' if value > ceiling else ''}")
    return int(options.check and over > 0)


if __name__ == "__main__":
    sys.exit(main())
