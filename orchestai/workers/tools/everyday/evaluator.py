"""Carries out requests for what needs no model: sums, units, dates, texts, lists, and questions about the program.

A grammar for each language accounts for every word of a request, or the tools decline: a wrong answer is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from lark.exceptions import VisitError

from orchestai.workers.base import Request, WorkerCard, WorkerError
from orchestai.workers.tools.everyday.about import About
from orchestai.workers.tools.everyday.dates import Dates
from orchestai.workers.tools.everyday.language import DOMAINS, Language, language
from orchestai.workers.tools.everyday.lists import Lists
from orchestai.workers.tools.everyday.quantity import Quantity
from orchestai.workers.tools.everyday.reading import ASIDE, QUOTED

_LANGUAGES = ("en", "de")
_NOTHING_TO_DO = {
    *("decimal", "spelled", "lexical", "vulgar", "mixed", "mixed_digits", "mixed_vulgar", "share", "percent"),
    *("quantity", "price", "it_as_number", "taken", "feet_and_inches"),
}
"""Readings that name a value and say nothing of what to do with it."""
_LONGEST = 300
"""Characters of a request beside a text that it gives; what the grammars know to ask is shorter."""
_MOST_JOINTS = 6
_QUOTED = re.compile(QUOTED)


class _Evaluator(Lists, Dates, About):
    """Gives the value of a reading."""


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
        for code in _LANGUAGES:
            clauses = _Clauses(language(code), clock(), pool, aside, (domain, *DOMAINS))
            try:
                found, result = clauses.carried_out(text, tuple(request.inputs.values()))
            except WorkerError as error:
                reason = reason if isinstance(error, _UnreadError) else error
            else:
                if found == domain:
                    return result
                break
    raise reason


class _UnreadError(WorkerError):
    """No reading has all the words."""


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

    def carried_out(self, text: str, given: Sequence[str], *, must_refer: bool = False) -> tuple[str, str]:
        """The domain of the last clause and the answer to it; each clause is given that of the one before.

        Args:
            given: to the first clause.
            must_refer: whether the first clause has to speak of what it is given.

        Raises:
            WorkerError: a clause cannot be read or carried out.
        """
        for first, rest in self._split(text):
            try:
                _, result = self._clause(first, given, must_refer, is_last=False)
                return self.carried_out(rest, (result,), must_refer=True)
            except WorkerError:
                continue
        return self._clause(text, given, must_refer, is_last=True)

    def _split(self, text: str) -> Iterator[tuple[str, str]]:
        """The first clause and the others, for each place where one may end."""
        masked = _QUOTED.sub(lambda quoted: "\ue001" * len(quoted[0]), text)
        for joint in islice(self._language.joint.finditer(masked), _MOST_JOINTS):
            yield text[: joint.start()], text[joint.end() :]

    def _clause(self, text: str, given: Sequence[str], must_refer: bool, *, is_last: bool) -> tuple[str, str]:
        reason: WorkerError = _UnreadError("no reading has all the words")
        for words in dict.fromkeys((self._language.without_politeness(text), text)):
            for domain in self._domains:
                tree = self._language.parse(words, domain)
                if tree is None:
                    continue
                evaluator = _Evaluator(self._language, words, given, *self._context)
                try:
                    value = evaluator.transform(tree)
                except VisitError as error:
                    if not isinstance(error.orig_exc, WorkerError):
                        raise error.orig_exc from None
                    reason = error.orig_exc if domain == self._domains[0] else reason
                    continue
                has_task = tree.data not in _NOTHING_TO_DO or not is_last
                if evaluator.used_given or (has_task and not must_refer):
                    is_quantity = isinstance(value, Quantity)
                    return domain, value.shown(self._language.decimal_mark) if is_quantity else str(value)
        raise reason


def _set_aside(text: str) -> tuple[str, str]:
    """A request with a mark in place of the text that it gives in quotes, after a colon or on the lines below."""
    if len(text) <= _LONGEST and "\n" not in text:
        return text, ""
    longest = max(_QUOTED.finditer(text), key=lambda quoted: len(quoted[0]), default=None)
    if longest and len(text) - len(longest[0]) <= _LONGEST:
        return f'{text[: longest.start()]}"{ASIDE}"{text[longest.end() :]}', longest[0][1:-1]
    if below := re.fullmatch(rf"([^\n:]{{1,{_LONGEST}}}?)(?:[?.]?\s*\n|:)\s*(\S(?s:.*))", text):
        return f"{below[1]}: {ASIDE}", below[2]
    return text, ""
