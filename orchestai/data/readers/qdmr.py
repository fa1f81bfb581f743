"""Break (Wolfson et al. 2020, arXiv 2001.11770): questions that people asked, which other people split into steps.

The source is `break`, or `break_high_level` for decompositions into fewer, longer steps, each followed by `_worded`
where the references are put into words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, records
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, one_line, plans_of
from orchestai.errors import UserError
from orchestai.tasks.table_files import read_table
from orchestai.text.spoken import ORDINALS

REFERENCE = re.compile(r"#(\d+)")
_PAIR = re.compile(r"(?:both\s+)?#(\d+)\s*(?:,\s*and|,|and)\s*#(\d+)")
_ARTICLES = frozenset({"the", "a", "an", "different", "distinct"})
_QUESTIONS = frozenset(
    (
        *("if", "whether", "is", "are", "was", "were", "do", "does", "did", "which", "what", "who", "whom", "whose"),
        *("when", "where", "why", "how", "in"),
    )
)
_NO_NOUN = _QUESTIONS | frozenset(
    (
        *("of", "on", "at", "from", "to", "with", "that", "for", "by", "has", "have", "had", "being", "besides"),
        *("sorted", "than", "under", "above", "between", "as", "after", "before", "during", "per", "each", "both"),
        *("not", "and", "or", ","),
    )
)
_LONGEST_HEAD, _LONGEST_REST = 4, 5
_BOTH = ("both", "both of them", "the two", "these two", "both results")
_BY_NUMBER = ("step {k}", "the result of step {k}", "the output of step {k}", "what step {k} gave")
_BY_ORDINAL = ("the {nth} result", "the result of the {nth} step", "what the {nth} step gave")
_JUST_BEFORE = ("the previous result", "the result of the previous step", "what the last step gave")
_WITH_NAME = ("the {head} from step {k}", "the {head} of step {k}", "step {k}'s {head}")
_ONE, _MANY = ("that", "it", "this", "that {head}"), ("those", "them", "these", "those {head}")


def worded(steps: Sequence[str], plan_id: str) -> list[str]:
    """The steps with words for `#1`, `#2`, ..., which are the numbers of steps; one that there is not stays."""
    names = _Names(steps)
    return [_step(words, number, names, plan_id) for number, words in enumerate(steps, start=1)]


def _step(words: str, number: int, names: _Names, plan_id: str) -> str:
    pair = _PAIR.search(words)
    named = sorted(int(k) for k in REFERENCE.findall(words))
    if pair is not None and named == [number - 2, number - 1] and _drawn(2, plan_id, number, "both"):
        return words[: pair.start()] + _one_of(_BOTH, plan_id, number) + words[pair.end() :]

    def wording(reference: re.Match[str]) -> str:
        k = int(reference[1])
        return _wording(k, number, names, (plan_id, number, reference.start())) if k in names else reference[0]

    return REFERENCE.sub(wording, words)


def _wording(k: int, number: int, names: _Names, key: tuple[object, ...]) -> str:
    head = names.head(k)
    before = k == number - 1
    kinds = ["place", "place"]
    if (name := names.unique(k, number, long=bool(_drawn(2, *key, "long")))) is not None:
        kinds += ["name", "name"]
    if before:
        kinds += ["pronoun"]
    kind = _one_of(kinds, *key, "kind")
    if kind == "name":
        return f"the {name}"
    if kind == "pronoun":
        forms = _MANY if head is not None and head.endswith("s") else _ONE
        return _one_of([form for form in forms if head or "{head}" not in form], *key).format(head=head)
    forms = (*_BY_NUMBER, *(_BY_ORDINAL if k <= len(ORDINALS) else ()))
    forms += (*(_JUST_BEFORE if before else ()), *(_WITH_NAME if head else ()))
    return _one_of(forms, *key).format(k=k, head=head, nth=ORDINALS[min(k, len(ORDINALS)) - 1])


class _Names:
    """What the results of steps are called: by a noun ("flights"), or with what tells them apart ("flights to denver").

    Args:
        steps: in order, with their references.
    """

    def __init__(self, steps: Sequence[str]) -> None:
        self._words = {number: _bare(words) for number, words in enumerate(steps, start=1)}
        self._heads: dict[int, str | None] = {}
        for number in self._words:
            self._heads[number] = self._head(number)
        self._longs = {number: self._long(number) for number in self._words}

    def __contains__(self, number: int) -> bool:
        return number in self._words

    def head(self, number: int) -> str | None:
        """Its noun, with what stands before it; None where it asks something ("if #1 is red")."""
        return self._heads[number]

    def unique(self, number: int, at: int, *, long: bool) -> str | None:
        """A name that no other step before step `at` could be meant by; the longer one of two if `long`."""
        others = [k for k in self._words if k < at and k != number]
        head, whole = self._heads[number], self._longs[number]
        if head is None or whole is None:
            return None
        named = [name.lower().split() for k in others if (name := self._longs[k]) is not None]
        if any(name[: len(whole.split())] == whole.lower().split() for name in named):
            return None
        alone = all((other := self._heads[k]) is None or other.lower() != head.lower() for k in others)
        return head if alone and not long else whole

    def _head(self, number: int) -> str | None:
        words = self._words[number]
        if words and (same := REFERENCE.fullmatch(words[0])) is not None:
            return self._heads.get(int(same[1]))
        if not words or words[0].lower() in _QUESTIONS:
            return None
        noun: list[str] = []
        for word in words:
            if word.lower() in _NO_NOUN or "#" in word:
                break
            noun.append(word)
        return " ".join(noun[-_LONGEST_HEAD:]) or None

    def _long(self, number: int) -> str | None:
        head, words = self._heads[number], self._words[number]
        if head is None:
            return None
        rest = words[1:] if "#" in words[0] else words[_after(words, head.split()) :]
        said = [self._spoken(word) for word in rest[:_LONGEST_REST]]
        kept = said[: said.index("")] if "" in said else said
        while kept and kept[-1].lower() in _NO_NOUN | _ARTICLES:
            kept.pop()
        return " ".join([head, *kept])

    def _spoken(self, word: str) -> str:
        """A word; of a reference the noun, nothing where there is none."""
        if (reference := REFERENCE.fullmatch(word)) is None:
            return word
        return self._heads.get(int(reference[1])) or ""


def _bare(words: str) -> list[str]:
    """The words without `return` and articles before them."""
    found = words.split()
    while found and (found[0].lower() == "return" or found[0].lower() in _ARTICLES):
        found.pop(0)
    return found


def _after(words: list[str], head: list[str]) -> int:
    """Where the words go on behind the noun, of which the last words are given."""
    return next(i + len(head) for i in range(len(words)) if words[i : i + len(head)] == head)


def _one_of(forms: Sequence[str], *key: object) -> str:
    return forms[_drawn(len(forms), *key)]


def _drawn(count: int, *key: object) -> int:
    """One of 0 to count - 1, always the same for a key."""
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % count


LICENCE = "MIT"
_COLUMNS = ("question_id", "question_text", "decomposition")


def read(path: Path, *, in_words: bool = False) -> Iterator[ReadPlan]:
    """Plans of a .jsonl or .csv file with the columns of the published ones, or of all in a folder.

    Those of a file or folder with `high` in its name are high-level ones. A step says which steps it needs as `#2`, or
    in words, always the same ones for a plan's id.
    """
    for file in files(path, "*.jsonl", "*.csv", "QDMR/*.csv", "QDMR-high-level/*.csv"):
        rows = _table(file) if ".csv" in file.suffixes else records(file, "Break", *_COLUMNS)
        high = any("high" in name for name in (file.name, file.parent.name))
        source = "_".join(["break", *(["high_level"] if high else []), *(["worded"] if in_words else [])])
        yield from plans_of(partial(_plan, source, in_words=in_words), rows)


def _table(file: Path) -> list[dict[str, Any]]:
    rows = [row for _, row in read_table(file, "plan")]
    if not set(_COLUMNS) <= rows[0].keys():
        raise UserError(f"{file}: not a file of Break, whose columns are {', '.join(_COLUMNS)}")
    return rows


def _plan(source: str, row: dict[str, Any], *, in_words: bool) -> SourcePlan:
    steps = [one_line(words) for words in row["decomposition"].split(";")]
    said = worded(steps, row["question_id"]) if in_words else steps
    return SourcePlan(
        id=row["question_id"],
        source=source,
        licence=LICENCE,
        task=one_line(row["question_text"]),
        steps=tuple(SourceStep(str(number), words) for number, words in enumerate(said, start=1)),
        edges=frozenset(
            (str(int(parent)), str(child))
            for child, words in enumerate(steps, start=1)
            for parent in REFERENCE.findall(words)
        ),
    )
