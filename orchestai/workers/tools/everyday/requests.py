"""Carries out requests for what needs no model: sums, units, dates, texts, lists, and questions about the program.

A grammar for each language accounts for every word of a request, or the tools decline: a wrong answer is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from orchestai.workers.base import Request, WorkerCard, WorkerError
from orchestai.workers.tools.everyday.evaluator import ASIDE, HERE, QUOTED, Evaluator
from orchestai.workers.tools.everyday.language import Language, languages

_NOTHING_TO_DO = {
    *("decimal", "spelled", "lexical", "vulgar", "mixed", "share", "percent"),
    *("quantity", "price", "it_as_number", "taken", "feet_and_inches"),
}
"""Readings that name a value and say nothing of what to do with it."""
_LONGEST = 300
"""Characters of a request beside a text that it gives; what the grammars know to ask is shorter."""
_QUOTED = re.compile(QUOTED)
_THEN = re.compile(r"(?:,|\band|\bund)\s+(?:then|afterwards|dann|danach|anschließend)\b", re.IGNORECASE)
"""Between two things to do, also where a text stands before it without quotes."""
_NUMBERS = re.compile(r"-?\d[\d.,]*(?:(?:[,;]\s*(?:and|und)?|\s(?:and|und|&))\s*-?\d+(?:[.,]\d+)*)+")


class _UnreadError(WorkerError):
    """No reading has all the words."""


def answer(
    request: Request, domain: str, pool: Sequence[WorkerCard] = (), clock: Callable[[], datetime] = datetime.now
) -> str:
    """The answer to a request of this domain.

    Raises:
        WorkerError: a function is wanted, or no grammar has all the words, or what they ask for does not exist.
    """
    if request.signature is not None:
        raise WorkerError("this tool answers in text, and a function is wanted")
    text, aside = _set_aside(request.instruction.strip())
    reason: WorkerError = _UnreadError(f"not every word of the request is about {domain}")

    def read(words: str, given: Sequence[str], must_refer: bool = False) -> str:
        """What a reading gives that speaks of what is given, else, unless it has to, another one's."""
        why: WorkerError = _UnreadError("no reading has all the words")
        found: str | None = None
        for asked in dict.fromkeys((language.without_politeness(words), words)):
            if (tree := language.parse(asked, domain)) is None:
                continue
            evaluator = Evaluator(language, asked, given, clock(), pool, aside)
            try:
                result = evaluator.shown(evaluator.value_of(tree))
            except WorkerError as error:
                why = error
                continue
            has_task = tree.data not in _NOTHING_TO_DO
            if evaluator.used_given or (has_task and not (must_refer or given)):
                return result
            if has_task and not must_refer:
                found = found or result
        if found is None:
            raise why
        return found

    if len(text) > _LONGEST or _THEN.search(_QUOTED.sub("", text.partition(": ")[2])):
        raise reason
    inputs = tuple(request.inputs.values())
    for language in languages(_QUOTED.sub(" ", text)):
        try:
            return read(text, inputs)
        except WorkerError as error:
            reason = reason if isinstance(error, _UnreadError) else error
        for words, thing in () if inputs else _without_things(language, text):
            bare = (thing[1:-1] if _QUOTED.fullmatch(thing) else thing).replace(ASIDE, aside)
            try:
                return read(words, (bare,), must_refer=True)
            except WorkerError:
                continue
    raise reason


def _without_things(language: Language, text: str) -> Iterator[tuple[str, str]]:
    """The words and the text or list that they are about, with a mark in its place, or before or after them."""
    things = [*_QUOTED.finditer(text)] or [*_NUMBERS.finditer(text)]
    if after := re.fullmatch(r"([^:]*\w): *(\S(?s:.*))", text):
        yield after[1], after[2]
    if len(things) == 1:
        start, end = things[0].span()
        words = f"{text[:start]}{HERE}{text[end:]}"
        yield words, things[0][0]
        for bare in (language.object.sub("", words), words.removesuffix(HERE).rstrip(": \n")):
            if bare != words:
                yield bare, things[0][0]


def _set_aside(text: str) -> tuple[str, str]:
    """A request with a mark in place of the text that it gives in quotes, after a colon or on the lines below."""
    if len(text) <= _LONGEST and "\n" not in text:
        return text, ""
    longest = max(_QUOTED.finditer(text), key=lambda quoted: len(quoted[0]), default=None)
    if longest and len(text) - len(longest[0]) <= _LONGEST:
        return f'{text[: longest.start()]}"{ASIDE}"{text[longest.end() :]}', longest[0][1:-1]
    end = r"[?.]?\s*\n|:" if len(text) <= _LONGEST else r"[?.]?\s*\n|:|[?.]\s"
    if below := re.fullmatch(rf"([^\n:]{{1,{_LONGEST}}}?)(?:{end})\s*(\S(?s:.*))", text):
        return f"{below[1]}: {ASIDE}", below[2]
    return text, ""
