"""What carrying out a request knows besides its words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lark import Token, Transformer

from orchestai.workers.base import WorkerCard, WorkerError
from orchestai.workers.tools.everyday.language import Language
from orchestai.workers.tools.everyday.quantity import shown

ASIDE = "\ue000"
HERE = "\ue002"
"""Stands in the words for what they are given."""
QUOTED = (
    r"\"[^\"]*\"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|‚[^‚‘’]*[‘’]|‘[^‘’]*’|"
    r"(?<!\w)'[^'\n]*(?:'\w[^'\n]*){0,9}'(?!\w)"
)


class Reading(Transformer[Token, Any]):
    """Base of what the rules of the grammars mean: each method without an underscore is called for the rule or the
    alternative of its name, with what its parts gave.

    Args:
        language: of the words.
        words: that are read.
        given: results of the steps before, to which "it" refers, as texts or quantities.
        now: the time here.
        pool: the workers, for questions about them.
        aside: the text for which `ASIDE` stands among the words.

    Attributes:
        used_given: whether "it" was said, or left out.
    """

    def __init__(
        self,
        language: Language,
        words: str,
        given: Sequence[Any],
        now: datetime,
        pool: Sequence[WorkerCard],
        aside: str,
    ) -> None:
        super().__init__(visit_tokens=False)
        self._language = language
        self._words = words
        self._aside = aside
        self._given = given
        self._now = now
        self._pool = pool
        self.used_given = False

    def __default__(self, data: str, children: list[Any], meta: Any) -> Any:
        """Call the method of an alternative whose name says that its parts come the other way round."""
        return getattr(self, data.removesuffix("_swapped"))(*reversed(children))

    def _it(self) -> str:
        self.used_given = True
        if len(self._given) != 1:
            raise WorkerError(f"the words refer to one result of an earlier step, and there are {len(self._given)}")
        return self._texts()[0]

    def _texts(self) -> list[str]:
        """What is given, as texts."""
        return [shown(given, self._language.decimal_mark).strip() for given in self._given]

    def _read(self, text: str, start: str) -> Any:
        """What a text, which the request gives or refers to, is as a `sum` or a `date`."""
        tree = self._language.parse(text.removesuffix(" (US)"), start)
        if tree is None:
            raise WorkerError(f"{text[:40]!r} is no {'number' if start == 'sum' else start}")
        return self.transform(tree)

    def _in(self, english: str, german: str) -> str:
        return english if self._language.code == "en" else german
