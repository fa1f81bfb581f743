"""BM25 search in the almanac's pages: by the words of titles, by the words of whole pages, by the letters of titles."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, get_args

import bm25s
import numpy as np
from numpy.typing import NDArray

from orchestai.workers.base import Request, WorkerError
from orchestai_almanac.attributes import Kind
from orchestai_almanac.pages import pages

_WORD = re.compile(r"[a-z0-9]+")
_NAME = re.compile(r"[A-Z][a-z]+")
_IDLE_WORDS = "a an and at by for from in is it its name of on or s that the this to was were whose with"
_IDLE = frozenset(_IDLE_WORDS.split())
_GRAM = 3
_K1 = 0.4
"""Saturation of a word's count: low, since a page about a thing hardly names it more often than one beside it."""
_KINDS = {word: kind for kind in get_args(Kind) for word in (kind, f"{kind}s")} | {"people": "person"}


async def titles(request: Request) -> str:
    """The page whose title shares most words with the request; of namesakes, the one that the index lists first."""
    return best_page(_query(request), "titles")


async def full_text(request: Request) -> str:
    """The page whose words, wherever they stand, fit best."""
    return best_page(_query(request), "text")


async def of_kind(request: Request) -> str:
    """As `full_text`, among the pages of the kind of thing that the request speaks of first.

    Raises:
        WorkerError: the request speaks of no kind.
    """
    spoken = next((word for word in _WORD.findall(request.instruction.lower()) if word in _KINDS), None)
    if spoken is None:
        raise WorkerError("the words name no kind of thing")
    return best_page(_query(request), "text", kind=_KINDS[spoken])


async def letters(request: Request) -> str:
    """The page whose title is spelled most like the names in the request."""
    return best_page(_query(request), "letters")


def best_page(query: str, index: Literal["titles", "text", "letters"], *, kind: str = "") -> str:
    """The page that fits best; the first of several that fit equally well.

    Args:
        kind: of the things whose pages count; empty for all.

    Raises:
        WorkerError: nothing in the query is in the index.
    """
    scores = _scores(query, index)
    if scores is not None and kind:
        scores = scores * np.array([page.kind == kind for page in pages()])
    if scores is None or not scores.max() > 0:
        raise WorkerError(f"no page has anything of {query[:60]!r}")
    return pages()[int(scores.argmax())].text


def _query(request: Request) -> str:
    """Parents that give names are a part of the query; pages are not."""
    return " ".join([request.instruction, *(text for text in request.inputs.values() if "\n" not in text)])


@cache
def _index(name: str) -> tuple[bm25s.BM25, Callable[[str], list[str]]]:
    tokens = _grams if name == "letters" else _words
    searcher = bm25s.BM25(k1=_K1)
    corpus = [tokens(f"{page.title} {page.text}" if name == "text" else page.title) for page in pages()]
    searcher.index(corpus, show_progress=False)
    return searcher, tokens


def _scores(query: str, index: str) -> NDArray[np.float32] | None:
    """(pages,) scores; None where the index has nothing of the query."""
    searcher, tokens = _index(index)
    known = [token for token in tokens(query) if token in searcher.vocab_dict]
    return searcher.get_scores(known) if known else None


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _IDLE]


def _grams(text: str) -> list[str]:
    """Groups of letters of each name, with its ends marked; names are the words with a capital."""
    found = []
    for word in _NAME.findall(text):
        marked = f"^{word.lower()}$"
        found += [marked[i : i + _GRAM] for i in range(len(marked) - _GRAM + 1)]
    return found
