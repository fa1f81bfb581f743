"""Carries out requests for what needs no model: sums, units, dates, texts, lists, and questions about the program.

A grammar for each language accounts for every word of a request, or the tools decline: a wrong answer is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from orchestai.workers.base import Request, WorkerCard, WorkerError
from orchestai.workers.tools.everyday.evaluator import ASIDE, HERE, QUOTED, Evaluator, shown
from orchestai.workers.tools.everyday.language import DOMAINS, Language, Quantity, languages

_NOTHING_TO_DO = {
    *("decimal", "spelled", "lexical", "vulgar", "mixed", "share", "percent"),
    *("quantity", "price", "it_as_number", "taken", "feet_and_inches"),
}
"""Readings that name a value and say nothing of what to do with it."""
_LONGEST = 300
"""Characters of a request beside a text that it gives; what the grammars know to ask is shorter."""
_MOST_JOINTS = 6
_QUOTED = re.compile(QUOTED)
_THEN = re.compile(r"(?:,|\band|\bund)\s+(?:then|afterwards|dann|danach|anschließend)\b", re.IGNORECASE)
"""Between two things to do, also where a text stands before it without quotes."""
_NUMBERS = re.compile(r"-?\d[\d.,]*(?:(?:[,;]\s*(?:and|und)?|\s(?:and|und|&))\s*-?\d+(?:[.,]\d+)*)+")


def answer(
    request: Request, domain: str, pool: Sequence[WorkerCard] = (), clock: Callable[[], datetime] = datetime.now
) -> str:
    """The answer to a request of this domain, which may come after clauses of others ("..., then ...").

    Raises:
        WorkerError: a function is wanted, or no grammar has all the words, or what they ask for does not exist.
    """
    if request.signature is not None:
        raise WorkerError("this tool answers in text, and a function is wanted")
    text, aside = _set_aside(request.instruction.strip())
    reason: WorkerError = _UnreadError(f"not every word of the request is about {domain}")
    if len(text) <= _LONGEST:
        for one in languages(_QUOTED.sub(" ", text)):
            clauses = _Clauses(one, clock(), pool, aside, (domain, *DOMAINS))
            try:
                last = clauses.read(text, tuple(request.inputs.values()))[-1]
            except WorkerError as error:
                reason = reason if isinstance(error, _UnreadError) else error
            else:
                if last.domain == domain:
                    return last.result
                break
    raise reason


def steps(instruction: str) -> tuple[str, ...]:
    """The clauses of an instruction that says several things to do one after the other; none of any other."""
    text, aside = _set_aside(instruction.strip())
    for one in languages(_QUOTED.sub(" ", text)) if len(text) <= _LONGEST else ():
        try:
            clauses = _Clauses(one, datetime.now(), (), aside, DOMAINS).read(text, ())
        except WorkerError:
            continue
        if len(clauses) > 1 and all(clause.has_task for clause in clauses):
            return tuple(clause.words.replace(ASIDE, aside) for clause in clauses)
        break
    return ()


class _UnreadError(WorkerError):
    """No reading has all the words."""


@dataclass(frozen=True)
class _Clause:
    """A clause that was carried out.

    Attributes:
        has_task: whether it says what to do, and not only what there is, or what is asked of what was done.
    """

    domain: str
    words: str
    value: Any
    result: str
    has_task: bool


class _Clauses:
    """Carries out the clauses of a request in a language.

    Args:
        aside: a text that the request gives, where it is not among the words.
        domains: what a clause is read as, the likeliest first.
    """

    def __init__(
        self, language: Language, now: datetime, pool: Sequence[WorkerCard], aside: str, domains: Sequence[str]
    ) -> None:
        self._language = language
        self._context = now, pool, aside
        self._domains = domains

    def read(self, text: str, given: Sequence[Any]) -> list[_Clause]:
        """The clauses of a request, which may name what it is about once, somewhere.

        Raises:
            WorkerError: see `carried_out`.
        """
        try:
            return self.carried_out(text, given)
        except WorkerError as error:
            reason = error
        for words, thing in () if given else self._without_things(text):
            bare = (thing[1:-1] if _QUOTED.fullmatch(thing) else thing).replace(ASIDE, self._context[2])
            try:
                first, *others = self.carried_out(words, (bare,), must_refer=True)
            except WorkerError:
                continue
            if HERE not in words:
                first = replace(first, words=f"{first.words}: {thing}")
            return [replace(clause, words=clause.words.replace(HERE, thing)) for clause in (first, *others)]
        raise reason

    def _without_things(self, text: str) -> Iterator[tuple[str, str]]:
        """The words and the text or list that they are about, with a mark in its place, or before or after them."""
        things = [*_QUOTED.finditer(text)] or [*_NUMBERS.finditer(text)]
        if (after := re.fullmatch(r"([^:]*\w): *(\S(?s:.*))", text)) and not _THEN.search(_QUOTED.sub("", after[2])):
            yield after[1], after[2]
        if len(things) == 1:
            start, end = things[0].span()
            words = f"{text[:start]}{HERE}{text[end:]}"
            yield words, things[0][0]
            for bare in (self._language.object.sub("", words), words.removesuffix(HERE).rstrip(": \n")):
                if bare != words:
                    yield bare, things[0][0]

    def carried_out(self, text: str, given: Sequence[Any], *, must_refer: bool = False) -> list[_Clause]:
        """The clauses; each is given what the one before gave.

        Args:
            given: to the first clause, texts or quantities.
            must_refer: whether the first clause has to speak of what it is given.

        Raises:
            WorkerError: a clause cannot be read or carried out.
        """
        for first, rest in self._split(text):
            try:
                clause = self._clause(first, given, must_refer, is_last=False)
                return [clause, *self.carried_out(rest, (clause.value,), must_refer=True)]
            except WorkerError:
                continue
        if _THEN.search(_QUOTED.sub("", text.partition(": ")[2])):
            raise _UnreadError("what comes after the colon says what to do then, and cannot be read")
        return [self._clause(text, given, must_refer, is_last=True)]

    def _split(self, text: str) -> Iterator[tuple[str, str]]:
        """The first clause and the others, for each place where one may end."""
        masked = _QUOTED.sub(lambda quoted: "\ue001" * len(quoted[0]), text)
        for joint in islice(self._language.joint.finditer(masked), _MOST_JOINTS):
            first = text[: joint.start()]
            # "kehre dann die Wörter um" is one clause
            if self._language.code == "en" or " " in first or joint[0].lstrip()[0] in ",;.":
                yield first, text[joint.end() :]

    def _clause(self, text: str, given: Sequence[Any], must_refer: bool, *, is_last: bool) -> _Clause:
        """A reading that speaks of what is given, else, unless it has to, another one."""
        reason: WorkerError = _UnreadError("no reading has all the words")
        found: _Clause | None = None
        for words in dict.fromkeys((self._language.without_politeness(text), text)):
            for domain in self._domains:
                tree = self._language.parse(words, domain)
                if tree is None:
                    continue
                evaluator = Evaluator(self._language, words, given, *self._context)
                try:
                    value = evaluator.value_of(tree)
                except WorkerError as error:
                    reason = error if domain == self._domains[0] else reason
                    continue
                has_task = tree.data not in _NOTHING_TO_DO
                result = shown(value, self._language.decimal_mark)
                clause = _Clause(domain, text, value if isinstance(value, Quantity) else result, result, has_task)
                if evaluator.used_given or ((has_task or not is_last) and not (must_refer or given)):
                    return clause
                if has_task and not must_refer:
                    found = found or clause
        if found:
            return found
        raise reason


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
