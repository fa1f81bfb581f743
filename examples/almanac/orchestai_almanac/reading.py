"""Readers: from a page, the value that the words ask for, as the page writes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from orchestai.workers.base import Request, WorkerError
from orchestai_almanac.thesaurus import Topic, stems, topic_of
from orchestai_almanac.values import date_spans, quantities, quantity_spans

_FIELD = re.compile(r"^(?:\|\s*)?([^:|\n]+?)\s*[:|]\s*([^|\n]+?)\s*\|?$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.;])\s+")
_NAME = re.compile(r"(?:[A-Z][a-z]+)(?: [A-Z][a-z]+)*")


async def fields(request: Request) -> str:
    """The field whose heading shares most words with the request; of several, the shortest heading.

    Raises:
        WorkerError: the page has no fields, or none shares a word.
    """
    wanted = stems(request.instruction)
    return _field(_page(request), lambda heading: len(stems(heading) & wanted))


async def synonyms(request: Request) -> str:
    """As `fields`, for headings that are about the same, in whatever words.

    Raises:
        WorkerError: the words are about nothing that the thesaurus knows, or no heading is about the same.
    """
    topic = _topic(request.instruction)
    return _field(_page(request), lambda heading: len(stems(heading) & topic.words))


async def sentences(request: Request) -> str:
    """From running text, the value in the sentence that speaks most of what is asked.

    Raises:
        WorkerError: the words are about nothing that the thesaurus knows, or no sentence has such a value.
    """
    return read_sentences(_page(request), request.instruction)


def read_sentences(page: str, words: str) -> str:
    """See `sentences`."""
    topic = _topic(words)
    wanted = topic.words | stems(words)
    title, _, text = page.partition("\n")
    found = [
        (len(stems(sentence) & wanted), value)
        for sentence in _SENTENCE.split(text)
        if stems(sentence) & topic.words and (value := _value(sentence, topic, title))
    ]
    if not found:
        raise WorkerError("no sentence of the page says it")
    return max(found, key=lambda pair: pair[0])[1]


def _page(request: Request) -> str:
    page = next((text for text in request.inputs.values() if "\n" in text), None)
    if page is None:
        raise WorkerError("there is no page to read")
    return page


def _topic(words: str) -> Topic:
    topic = topic_of(stems(words))
    if topic is None:
        raise WorkerError(f"the thesaurus knows no word of {words[:60]!r}")
    return topic


def _field(page: str, agreement: Callable[[str], int]) -> str:
    entries = [(match[1], match[2]) for match in _FIELD.finditer(page.partition("\n")[2])]
    ranked = sorted(entries, key=lambda entry: (-agreement(entry[0]), len(entry[0])))
    if not ranked or not agreement(ranked[0][0]):
        raise WorkerError("no field of the page is headed so")
    return ranked[0][1]


def _value(sentence: str, topic: Topic, title: str) -> str:
    """The first value of the topic's type; empty where the sentence has none."""
    if topic.type == "date":
        spans = date_spans(sentence)
        return sentence[slice(*spans[0])] if spans else ""
    if topic.type in ("measure", "count"):
        texts = [sentence[slice(*span)] for span in quantity_spans(sentence)]
        return next((text for text in texts if bool(quantities(text)[0].unit) == (topic.type == "measure")), "")
    names = [name for name in _NAME.findall(sentence) if name not in title and stems(name) - topic.words]
    return next((name for name in names if not sentence.startswith(name) or " " in name), names[0] if names else "")
