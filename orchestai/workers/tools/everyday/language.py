"""What requests are read with: for each language a grammar, a lexicon, and how numbers are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from itertools import chain, islice, product
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
_OPTIONAL = re.compile(r"(?:\((?:[\w\" |]|\w')+\)|\b\w+)[*?](?=[\s)])")
"""What may be missing within a rule. It is made a rule, since Lark would multiply the rule by it."""
_SAID = re.compile(r'"[^"\n]*"|/(?:[^/\\\n]|\\.)+/')
"""Words and regular expressions in a grammar."""
_FORMAL = re.compile(r"(?<=\w)e?n Sie\b")
"""The ending of what somebody is asked to do who is not addressed as a friend."""
_THEN = re.compile(r"(?<=\w) (?:dann|danach|anschließend)\b(?! \d)", re.IGNORECASE)
"""Within a German clause, which stands after its verb."""
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
"""An umlaut as keyboards without it write it."""
_LIKENESS = 0.8
_MOST_CORRECTIONS = 4
_LONG_WORD = re.compile(rf"{_LETTER}{{4,}}")
_DASH = re.compile(r"\s+[-–—]+\s+(?=[^\W\d_])")
_RULE = re.compile(r"^(?:[?!]*_?[a-z]\w*:| +\|).*", re.MULTILINE)
_GROUP = re.compile(r'\(("[^"\n]*"(?: \| "[^"\n]*")+)\)')
"""Alternative words within a rule. They are made a terminal, since Lark would multiply the rule by them."""


@dataclass(frozen=True)
class Unit:
    """A unit of measure: `factor * (amount + offset)` is an amount in its dimension's first unit.

    Attributes:
        label: how it is written after an amount, as `singular` after 1.
    """

    symbol: str
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
        words: that the grammar has.
        object: matches what a request is about, where it begins with that.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.decimal_mark = {"en": ".", "de": ","}[code]
        folder = files(__package__)
        lexicon = yaml.load((folder / "lexicon.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.spellings: dict[str, dict[str, Any]] = lexicon[code]
        frame = {name: f"(?:{_any_of(words.split('|'))})" for name, words in lexicon["frames"][code].items()}
        self._polite = re.compile(
            rf"^(?:{frame['opening']}\b[\s,!.]*)+|(?:[\s,]+{frame['closing']})+(?=[\s.!?]*$)|!+$", re.IGNORECASE
        )
        self.object = re.compile(rf"^(?:{frame['object']}\s+)?(?:{frame['noun']}\s+)*\ue002\s*[,:]?\s*", re.IGNORECASE)
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
                    self._units.setdefault(name, []).append(Unit(symbol, dimension, factor, offset, *label))
        self._units_in_any_case = {name.lower(): units for name, units in reversed(self._units.items())}
        money = [name for name, units in self._units.items() if units[0].dimension in MONEY]
        grammar = "\n".join((folder / f"{name}.lark").read_text("utf-8") for name in ("common", code))
        for i, group in enumerate(dict.fromkeys(_GROUP.findall(grammar))):
            grammar = grammar.replace(f"({group})", f"_GROUP_{i}") + f"\n_GROUP_{i}: {group}"
        rules: dict[str, str] = {}
        grammar = _RULE.sub(
            lambda rule: _OPTIONAL.sub(lambda found: rules.setdefault(found[0], f"_optional_{len(rules)}"), rule[0]),
            grammar,
        )
        grammar += "".join(f"\n{name}: {optional}" for optional, name in rules.items())
        for terminal, words in {**self.spellings, "UNIT": self._units, "CURRENCY": money}.items():
            grammar += f"\n{terminal}: /{_any_of(words)}/"
        said = "".join(_SAID.findall(re.sub("(?m)^//.*", "", grammar)))
        self.words = frozenset(re.findall(rf"{_LETTER}{{2,}}", said.lower()))
        vocabulary = " ".join([*sorted(self.words), *self._units, *chain.from_iterable(self._values.values())]).lower()
        self._known: dict[str, str] = {name.translate(_TWO_LETTERS): name for name in _LONG_WORD.findall(vocabulary)}
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
        bare = self._polite.sub("", _DASH.sub(", ", asked))
        return (_THEN.sub("", _FORMAL.sub("e", bare)) if self.code == "de" else bare) + colon + given

    def corrected(self, text: str) -> Iterator[dict[str, str]]:
        """What words of a text that nobody here knows may have been meant to be, the few likeliest ways of all."""
        meant: dict[str, list[str]] = {}
        for word in sorted({*_LONG_WORD.findall(text.lower())}.difference(self._known.values())):
            spelled = word.translate(_TWO_LETTERS)
            near = [spelled] if spelled in self._known else get_close_matches(spelled, self._known, 2, _LIKENESS)
            meant |= {word: [self._known[name] for name in near]} if near else {}
        for choice in islice(product(*meant.values()), _MOST_CORRECTIONS) if meant else ():
            yield dict(zip(meant, choice, strict=True))

    def value(self, word: Token) -> Any:
        """What a word of the lexicon stands for."""
        return self._values[word.type][_one_space(word).lower()]

    def units(self, name: str) -> tuple[Unit, ...]:
        """The units of this name as it is written (`mb`, `Mb`), or else in whatever case."""
        name = _one_space(name)
        return tuple(self._units.get(name) or self._units_in_any_case[name.lower()])

    def unit(self, symbols: Iterable[str], dimension: str) -> Unit:
        """The first unit of the dimension that one of the symbols names."""
        named = (unit for symbol in symbols for unit in self._units.get(symbol, ()))
        return next(unit for unit in named if unit.dimension == dimension)

    def number(self, digits: str) -> Fraction:
        """The value of digits with marks.

        Raises:
            ValueError: they are no number.
        """
        if self.code == "en" and re.fullmatch(r"-?\d+,\d\d?", digits):
            digits = digits.replace(",", ".")
        if self.code == "de" and not re.fullmatch(r"-?\d+\.(\d\d?|\d{4,})", digits):
            digits = digits.translate({ord(","): ".", ord("."): ","})
        if not re.fullmatch(r"[-−]?(\d{1,3}(,\d{3})+(\.\d+)?|\d*\.?\d+)", digits):
            raise ValueError(f"no number: {digits[:40]!r}")
        return Fraction(digits.replace(",", "").replace("−", "-"))


language = lru_cache(Language)


def languages(text: str) -> list[Language]:
    """Those whose own words a text has, those with the most first; all where it has none of any."""
    words = set(re.findall(rf"{_LETTER}{{2,}}", text.lower()))
    found = [language(code) for code in (("de", "en") if re.search(r"\d,\d\d?(?![\d,])", text) else ("en", "de"))]
    own = [len(words & one.words - other.words) for one, other in (found, reversed(found))]
    return [found[i] for i in sorted(range(2), key=lambda i: -own[i]) if own[i] or not any(own)]


def _any_of(words: Iterable[str]) -> str:
    """A regular expression, the longest words first."""
    return "|".join(re.escape(word).replace("/", r"\/") for word in sorted(words, key=len, reverse=True)) or r"(?!)."


def _within_edges(terminal: TerminalDef) -> None:
    words = terminal.pattern.to_regexp().replace(r"\ ", r"\s+")
    terminal.pattern = PatternRE(f"{_EDGE}(?:{words}){_EDGE}")


def _one_space(words: str) -> str:
    return re.sub(r"\s+", " ", words)
