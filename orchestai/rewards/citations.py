"""Judging a report by what it states and whether its citations hold.

A citation is a document's id in square brackets: `[towers-3]`, or `[towers-3, towers-7]`. As in ALCE (Gao et al. 2023,
"Enabling Large Language Models to Generate Text with Citations"), precision is the share of citations that hold and
recall that of sentences whose citations support them; but support is judged by words instead of a model: a document
supports a sentence most of whose content words it has, and documents together must have every number in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SUPPORT = 0.5
"""Share of a sentence's content words that a document must have to support it."""
_CITED = re.compile(r"\[([^\[\]\n]{1,200})\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])((?:\s*\[[^\[\]\n]*\])*)(?:\s+|$)|\n+")
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    _WORD.findall(
        "about after also although among another because been before being between both could does during each else "
        "from have having here however into itself just like made make many more most much must only other over same "
        "should since some such than that their them then there these they this those through thus under until upon "
        "very were what when where which while whose will with within without would your"
    )
)


@dataclass(frozen=True)
class ReportFigures:
    """What a report is worth.

    Attributes:
        coverage: share of the facts asked for that it states.
        precision: share of its citations that name a document which supports their sentence; 0 without citations.
        recall: share of its sentences that their citations support.
        sentences, citations: how many it has.
        false_citations: those that name no document, or one that does not support their sentence.
    """

    coverage: float
    precision: float
    recall: float
    sentences: int
    citations: int
    false_citations: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def reward(self) -> float:
        """`coverage * f1`: facts without sources are worth nothing, and neither are sources without the facts."""
        return self.coverage * self.f1


def judge_report(report: str, documents: Mapping[str, str], facts: Sequence[str]) -> ReportFigures:
    """Judge a report.

    Args:
        documents: texts by id; what the corpus holds.
        facts: words that a full report states, each compared without case and punctuation.
    """
    sentences = [(claim, cited) for claim, cited in _sentences(report) if _WORD.search(claim)]
    supported = holding = total = 0
    for claim, cited in sentences:
        known = [documents[name] for name in cited if name in documents]
        total += len(cited)
        holding += sum(_share(claim, text) >= SUPPORT for text in known)
        together = "\n".join(known)
        supported += _share(claim, together) >= SUPPORT and {
            word for word in _words(claim) if word.isdigit()
        } <= _words(together)
    return ReportFigures(
        coverage=sum(stated(fact, report) for fact in facts) / len(facts) if facts else 0.0,
        precision=holding / total if total else 0.0,
        recall=supported / len(sentences) if sentences else 0.0,
        sentences=len(sentences),
        citations=total,
        false_citations=total - holding,
    )


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about: long ones that are not common, and numbers; without case."""
    return {word for word in _words(text) if (len(word) > 3 and word not in _STOP) or word.isdigit()}


def stated(fact: str, report: str) -> bool:
    """Whether a report has the words of a fact in a row, whatever its case and punctuation; citations do not count."""
    wanted, words = ([word.casefold() for word in _WORD.findall(text)] for text in (fact, _CITED.sub(" ", report)))
    return bool(wanted) and f" {' '.join(wanted)} " in f" {' '.join(words)} "


def cited_ids(report: str) -> list[str]:
    """The ids that a report cites, each once, in order."""
    cited = (name.strip() for group in _CITED.findall(report) for name in re.split(r"[,;]", group))
    return list(dict.fromkeys(name for name in cited if name))


def _sentences(report: str) -> list[tuple[str, list[str]]]:
    """Each sentence without its citations, and the ids that it cites, those after its full stop included."""
    pieces = _SENTENCE_END.split(report)
    sentences = []
    for i in range(0, len(pieces), 2):
        text = f"{pieces[i]}{(pieces[i + 1] or '') if i + 1 < len(pieces) else ''}"
        sentences.append((_CITED.sub(" ", text), cited_ids(text)))
    return sentences


def _share(claim: str, text: str) -> float:
    """The share of a claim's content words, numbers included, that a text has; 0 where it has none."""
    wanted = content_words(claim)
    return len(wanted & _words(text)) / len(wanted) if wanted else 0.0


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
