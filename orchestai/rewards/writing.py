"""What two texts are worth together: the gated reward of the arXiv expansion task, from text alone.

The gates and their numbers are those of `arxiv_combined_reward` in LLM_Collab_Writing (github.com/OpenMLRL), the
experiments of "LLM Collaboration with Multi-Agent Reinforcement Learning" (Liu et al. 2025, arXiv 2508.04652).
docs/agents/writing.md says where it reads a text otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "addition": (
        *("additionally", "also", "besides", "furthermore", "moreover", "in addition", "not only", "as well as"),
        *("together with", "along with"),
    ),
    "example": (
        *("for example", "for instance", "such as", "including", "in particular", "particularly", "especially"),
        *("specifically", "namely", "to illustrate"),
    ),
    "explanation": (
        *("that is", "in other words", "more precisely", "put simply", "to clarify", "in essence", "essentially"),
        *("fundamentally", "at its core"),
    ),
    "consequence": (
        *("accordingly", "as a consequence", "as a result", "consequently", "for this reason", "hence", "therefore"),
        *("thereby", "thus", "this leads to", "owing to", "because of this"),
    ),
    "contrast": (
        *("by contrast", "conversely", "however", "in contrast", "instead", "nevertheless", "nonetheless"),
        *("on the contrary", "on the other hand", "rather than", "whereas", "but", "yet"),
    ),
    "sequence": (
        *("first", "second", "third", "firstly", "secondly", "thirdly", "next", "finally", "lastly", "subsequently"),
        *("to begin with", "initially", "afterwards"),
    ),
    "emphasis": (
        *("above all", "certainly", "clearly", "evidently", "in fact", "indeed", "most importantly", "notably"),
        *("of course", "significantly", "undoubtedly"),
    ),
    "summary": (
        *("all in all", "altogether", "briefly", "in brief", "in conclusion", "in short", "in summary", "on the whole"),
        *("overall", "to conclude", "to sum up", "to summarise", "to summarize", "ultimately"),
    ),
    "comparison": (
        *("analogously", "by analogy", "comparable to", "correspondingly", "equally", "in comparison", "just as"),
        *("in the same way", "likewise", "much like", "similarly"),
    ),
    "concession": (
        *("admittedly", "albeit", "although", "despite", "even if", "even though", "granted", "in spite of"),
        *("notwithstanding", "regardless of", "though"),
    ),
    "condition": (
        *("as long as", "assuming that", "given that", "if", "in case", "only if", "or else", "otherwise"),
        *("provided that", "unless", "whether"),
    ),
    "time": (
        *("after", "at the same time", "before", "currently", "during", "earlier", "eventually", "later", "meanwhile"),
        *("previously", "recently", "simultaneously", "since", "until", "when", "while"),
    ),
}

_WITHOUT_CONTENT = """
a about after all also am an and any are as at be because been before being both but by can could did do does each few
for from had has have he her here him his how i if in into is it its just may me might more most much must my no nor not
now of on only or other our out over own same shall she should so some such than that the their them then there these
they this those through to too under up us very was we were what when where which while who why will with would you your
"""
STOP_WORDS = frozenset(_WITHOUT_CONTENT.split())


MIN_WORDS, MAX_WORDS = 128, 256
"""What each text must hold, counted as what whitespace separates."""
BALANCE = (0.8, 1.3, 1.6, 2.0)
"""Characters of the second text per character of the first: nothing, full marks from, to, nothing."""
VARIETY = (0.5, 0.7, 1.3, 1.7)
"""Distinct content words of the second text per one of the first, likewise."""
FULL_OVERLAP = 0.23
"""Share of their content words that two texts need have in common."""

_WORD = re.compile(r"\w+")
_MARKERS = {
    category: re.compile(rf"\b(?:{'|'.join(map(re.escape, phrases))})\b") for category, phrases in TRANSITIONS.items()
}


@dataclass(frozen=True)
class WritingReward:
    """What each gate gave; a gate that the texts did not reach gave nothing.

    Attributes:
        length: 0.5 if both texts have the right number of words; else all that follows is 0.
        balance: up to 1 for the second text's length by that of the first.
        variety: up to 0.5 for its distinct content words by those of the first.
        style: up to 1 for kinds of transitions, and for content words that both texts use.
        passed: gates that were passed, of four.
    """

    length: float = 0.0
    balance: float = 0.0
    variety: float = 0.0
    style: float = 0.0
    passed: int = 0

    @property
    def total(self) -> float:
        """At most 3."""
        return self.length + self.balance + self.variety + self.style


def writing_reward(first: str, second: str, *, min_words: int = MIN_WORDS, max_words: int = MAX_WORDS) -> WritingReward:
    """What the two texts are worth together; each gate opens the next."""
    if not all(min_words <= len(text.split()) <= max_words for text in (first, second)) or not first.strip():
        return WritingReward()
    balance = marks(len(second) / len(first), BALANCE)
    if balance is None:
        return WritingReward(0.5, passed=1)
    known, new = content_words(first), content_words(second)
    variety = marks(len(new) / len(known), VARIETY) if known else None
    if variety is None:
        return WritingReward(0.5, balance, passed=2)
    return WritingReward(0.5, balance, 0.5 * variety, style(first, second), passed=4)


def marks(value: float, edges: tuple[float, float, float, float]) -> float | None:
    """1 between the inner edges, falling in a line to 0 at the outer ones; None beyond them, where a gate is shut."""
    low, full, full_until, high = edges
    if not low <= value <= high:
        return None
    return min(1.0, (value - low) / (full - low), (high - value) / (high - full_until))


def style(first: str, second: str) -> float:
    """0.4 of what kinds of transitions give, and 0.6 of the overlap of content words in units of `FULL_OVERLAP`.

    One kind of transition in either text gives 0.4, and each further one 0.05, up to 1.
    """
    kinds = len(transition_kinds(first) | transition_kinds(second))
    linked = min(0.4 + 0.05 * (kinds - 1), 1.0) if kinds else 0.0
    return 0.4 * linked + 0.6 * min(overlap(first, second) / FULL_OVERLAP, 1.0)


def overlap(first: str, second: str) -> float:
    """Jaccard index of the texts' content words; 0 where neither has any."""
    one, other = content_words(first), content_words(second)
    return len(one & other) / max(len(one | other), 1)


def content_words(text: str) -> frozenset[str]:
    """Distinct words, in lower case, without stop words."""
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS


def transition_kinds(text: str) -> frozenset[str]:
    """Kinds of transitions of which the text has a whole word or phrase."""
    lower = " ".join(text.lower().split())
    return frozenset(category for category, marker in _MARKERS.items() if marker.search(lower))
