"""What requests are read with: for each language a grammar, a lexicon, and how numbers are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml
from lark import Lark, Token, Tree
from lark.exceptions import LarkError
from lark.lexer import PatternRE, TerminalDef

DOMAINS = ("arithmetic", "units", "dates", "texts", "lists", "about")
"""What requests may be about: starts of the grammars, and names of tools."""
MONEY = ("euro", "dollar", "pound sterling", "franc", "yen")
"""Dimensions of units that are money."""

_LETTER = r"[^\W\d_]"
_EDGE = rf"(?:(?<!{_LETTER})|(?!{_LETTER}))"
"""A place that is not in the midst of a word; every terminal begins and ends at one."""
_GROUP = re.compile(r'\(("[^"\n]*"(?: \| "[^"\n]*")+)\)')
"""Alternative words within a rule. They are made a terminal, since Lark would multiply the rule by them."""


@dataclass(frozen=True)
class Unit:
    """A unit of measure: `factor * (amount + offset)` is an amount in its dimension's first unit.

    Attributes:
        label: how it is written after an amount, as `singular` after 1.
    """

    dimension: str
    factor: Fraction
    offset: Fraction
    label: str
    singular: str


class Language:
    """A language in which requests are understood.

    Attributes:
        code: of ISO 639-1.
        decimal_mark: between a number's whole part and its decimals.
        spellings: the words of the lexicon that have a value, by terminal.
        joint: matches what may join two clauses.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.decimal_mark = {"en": ".", "de": ","}[code]
        folder = files(__package__)
        lexicon = yaml.load((folder / "lexicon.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.spellings: dict[str, dict[str, Any]] = lexicon[code]
        frame = {name: f"(?:{words})" for name, words in lexicon["frames"][code].items()}
        self._polite = re.compile(
            rf"^(?:{frame['opening']}\b[\s,!.]*)+|(?:[\s,]+{frame['closing']})+(?=[\s.!?]*$)|!+$", re.IGNORECASE
        )
        self.joint = re.compile(rf"\s*[,;.]?\s+{frame['then']}\b,?\s+|[,;.]\s+", re.IGNORECASE)
        self._values = {
            terminal: {word.lower(): value for word, value in words.items()}
            for terminal, words in self.spellings.items()
        }
        self._units: dict[str, list[Unit]] = {}
        for dimension, units in lexicon["units"].items():
            for symbol, (*size, english, german) in units.items():
                names = [name for name in (english if code == "en" else german).split(", ") if name]
                factor, offset = (Fraction(str(number)) for number in (*size, 0)[:2])
                for name in (symbol, *names):
                    label = (symbol, symbol) if dimension == "temperature" or name == symbol else (name, names[0])
                    self._units.setdefault(name, []).append(Unit(dimension, factor, offset, *label))
        self._units_in_any_case = {name.lower(): units for name, units in reversed(self._units.items())}
        money = [name for name, units in self._units.items() if units[0].dimension in MONEY]
        grammar = "\n".join((folder / f"{name}.lark").read_text("utf-8") for name in ("common", code))
        for i, group in enumerate(dict.fromkeys(_GROUP.findall(grammar))):
            grammar = grammar.replace(f"({group})", f"_GROUP_{i}") + f"\n_GROUP_{i}: {group}"
        for terminal, words in {**self.spellings, "UNIT": self._units, "CURRENCY": money}.items():
            grammar += f"\n{terminal}: /{_any_of(words)}/"
        self.parse = lru_cache(maxsize=512)(self._parse)
        """The reading of a whole text from a start of the grammar, None where there is none."""
        self._parser = Lark(
            grammar,
            parser="earley",
            start=[*DOMAINS, "sum", "date"],
            g_regex_flags=re.IGNORECASE,
            propagate_positions=True,
            maybe_placeholders=False,
            edit_terminals=_within_edges,
        )

    def _parse(self, text: str, start: str) -> Tree[Token] | None:
        try:
            return self._parser.parse(text, start)
        except LarkError:
            return None

    def without_politeness(self, text: str) -> str:
        """A request without the words that say nothing, around it; what comes after a colon stays as it is."""
        asked, colon, given = text.partition(": ")
        return self._polite.sub("", asked) + colon + given

    def value(self, word: Token) -> Any:
        """What a word of the lexicon stands for."""
        return self._values[word.type][_one_space(word).lower()]

    def units(self, name: str) -> tuple[Unit, ...]:
        """The units of this name as it is written (`mb`, `Mb`), or else in whatever case."""
        name = _one_space(name)
        return tuple(self._units.get(name) or self._units_in_any_case[name.lower()])

    def number(self, digits: str) -> Fraction:
        """The value of digits with marks.

        Raises:
            ValueError: they are no number.
        """
        if self.code == "de" and not re.fullmatch(r"-?\d+\.(\d\d?|\d{4,})", digits):
            digits = digits.translate({ord(","): ".", ord("."): ","})
        if not re.fullmatch(r"[-−]?(\d{1,3}(,\d{3})+(\.\d+)?|\d*\.?\d+)", digits):
            raise ValueError(f"no number: {digits[:40]!r}")
        return Fraction(digits.replace(",", "").replace("−", "-"))


@lru_cache
def language(code: str) -> Language:
    return Language(code)


def _any_of(words: Iterable[str]) -> str:
    """A regular expression, the longest words first."""
    return "|".join(re.escape(word).replace("/", r"\/") for word in sorted(words, key=len, reverse=True)) or r"(?!)."


def _within_edges(terminal: TerminalDef) -> None:
    words = terminal.pattern.to_regexp().replace(r"\ ", r"\s+")
    terminal.pattern = PatternRE(f"{_EDGE}(?:{words}){_EDGE}")


def _one_space(words: str) -> str:
    return re.sub(r"\s+", " ", words)
