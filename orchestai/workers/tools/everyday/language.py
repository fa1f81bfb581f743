"""What requests are read with: for each language a grammar, a lexicon, numbers, and quantities with their units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml
from lark import Lark, Token, Tree
from lark.exceptions import LarkError
from lark.lexer import PatternRE, TerminalDef

from orchestai.workers.base import ImpossibleError, WorkerError

DOMAINS = ("arithmetic", "units", "dates", "texts", "lists", "about")
"""What requests may be about: starts of the grammars, and names of tools."""
_MONEY = ("euro", "dollar", "pound sterling", "franc", "yen")
"""Dimensions of units that are money."""

_LETTER = r"[^\W\d_]"
_EDGE = rf"(?:(?<!{_LETTER})|(?!{_LETTER}))"
"""A place that is not in the midst of a word; every terminal begins and ends at one."""
_RULE = re.compile(r"^(?:[?!]*_?[a-z]\w*:| +\|).*", re.MULTILINE)
_OPTIONAL = re.compile(r"(?:\((?:[\w\" |]|\w')+\)|\b\w+)[*?](?=[\s)])")
"""What may be missing within a rule. It is made a rule, since Lark would multiply the rule by it."""
_GROUP = re.compile(r'\(("[^"\n]*"(?: \| "[^"\n]*")+)\)')
"""Alternative words within a rule. They are made a terminal, since Lark would multiply the rule by them."""
_FORMAL = re.compile(r"(?<=\w)e?n Sie\b")
"""The ending of what somebody is asked to do who is not addressed as a friend."""
_THEN = re.compile(r"(?<=\w) (?:dann|danach|anschließend)\b(?! \d)", re.IGNORECASE)
"""Within a German clause, which stands after its verb."""
_DASH = re.compile(r"\s+[-–—]+\s+(?=[^\W\d_])")

_MOST_BITS, _EXACT_DECIMALS, _ROUNDED_DIGITS, _CONVERTED_DIGITS = 20_000, 12, 10, 6


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


PERCENT = Unit("%", "percent", Fraction(1, 100), Fraction(0), "%", "%")


@dataclass(frozen=True)
class Quantity:
    """An amount and its unit; a name such as "ounce" is of several, and without any it is a number.

    Attributes:
        is_converted: whether fewer digits are worth showing.
        system: of measures, where a unit has another size in another one.
    """

    amount: Fraction
    units: tuple[Unit, ...] = ()
    is_converted: bool = False
    system: str = ""

    def __post_init__(self) -> None:
        if max(self.amount.numerator.bit_length(), self.amount.denominator.bit_length()) > _MOST_BITS:
            raise ImpossibleError("the numbers are too large")

    @property
    def is_percent(self) -> bool:
        return self.units == (PERCENT,)

    @property
    def is_money(self) -> bool:
        return bool(self.units) and self.units[0].dimension in _MONEY

    @property
    def number(self) -> Fraction:
        """The value of a number or a per cent; raises `WorkerError` where it has a unit."""
        if self.units and not self.is_percent:
            raise WorkerError(f"a number is wanted, not {self.units[0].label}")
        return self.amount / 100 if self.is_percent else self.amount

    @property
    def whole(self) -> int:
        """The number; raises `WorkerError` where it has a fraction or a unit."""
        if self.number.denominator != 1:
            raise WorkerError("a whole number is wanted")
        return int(self.number)

    def unit_of(self, dimension: str) -> Unit | None:
        """What its name means in this dimension."""
        return next((unit for unit in self.units if unit.dimension == dimension), None)

    def converted(self, units: tuple[Unit, ...]) -> Quantity:
        """The same in the first of these units that is of its dimension; raises `WorkerError` where there is none."""
        for unit in units:
            if own := self.unit_of(unit.dimension):
                amount = own.factor * (self.amount + own.offset) / unit.factor - unit.offset
                of_the_us = {own.symbol, unit.symbol} & {"gal", "qt", "pt", "cup", "fl oz", "tbsp", "tsp"}
                return Quantity(amount, (unit,), is_converted=True, system="US" if of_the_us and own != unit else "")
        if self.is_money and units[0].dimension in _MONEY:
            raise ImpossibleError("exchange rates change, and no worker here knows today's")
        raise WorkerError(f"{self.units[0].label if self.units else 'a number'} cannot be given in {units[0].label}")

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        """The sum in this unit, or, with the sign -1, the difference.

        A per cent is added to what it is of, and a bare number to money as money.
        """
        if other.is_percent and not self.is_percent:
            return replace(self, amount=self.amount * (1 + sign * other.number))
        if not self.units and other.is_money:
            self = replace(self, units=other.units)
        if not other.units and (self.is_money or self.is_percent):
            other = replace(other, units=self.units)
        if self.units != other.units:
            other = other.converted(self.units) if self.units else replace(other, amount=other.number)
        return replace(self, amount=self.amount + sign * other.amount)

    def times(self, factor: Quantity | Fraction | int) -> Quantity:
        if isinstance(factor, Quantity):
            if (factor.units or self.is_percent) and not factor.is_percent:
                return factor.times(self.number)
            factor = factor.number
        return replace(self, amount=self.amount * factor)

    def over(self, other: Quantity) -> Quantity:
        """The quotient; how often one measure goes into another is a number."""
        if other.amount == 0:
            raise ImpossibleError("nothing can be divided by zero")
        if self.units and other.units and not other.is_percent:
            return Quantity(self.amount / other.converted(self.units).amount)
        return self.times(1 / other.number)

    def shown(self, decimal_mark: str) -> str:
        """As a person would write it: exact where that takes few decimals, money with two."""
        digits = self._digits().replace(".", decimal_mark)
        if not self.units:
            return digits
        label = self.units[0].singular if abs(self.amount) == 1 else self.units[0].label
        if decimal_mark == "." and self.units[0].label in "€$£¥":
            return f"{'-' if self.amount < 0 else ''}{self.units[0].label}{digits.removeprefix('-')}"
        return f"{digits}{'' if label in '%°' else ' '}{label}" + (f" ({self.system})" if self.system else "")

    def _digits(self) -> str:
        if self.is_money:
            return f"{rounded(self.amount, 2):.2f}".removesuffix(".00")
        digits = _CONVERTED_DIGITS if self.is_converted else _ROUNDED_DIGITS
        value, under = self.amount, self.amount.denominator
        if under == 1:
            return str(value.numerator)
        decimals = next((n for n in range(1, _EXACT_DECIMALS + 1) if (10**n) % under == 0), None)
        if decimals is None or (self.is_converted and decimals > digits):
            nearest = Context(prec=digits, rounding=ROUND_HALF_UP).divide(Decimal(value.numerator), Decimal(under))
            decimals = max(digits - nearest.adjusted() - 1, 2 if abs(value) >= 1 else 0)
        number = f"{rounded(value, decimals):f}"
        return number.rstrip("0").rstrip(".") if "." in number else number


def rounded(value: Fraction, decimals: int) -> Decimal:
    """The nearest number of so many decimals, halves away from zero; below 0, of tens, hundreds and so on."""
    whole = int(abs(value) * Fraction(10) ** decimals + Fraction(1, 2))
    return Decimal(whole if value >= 0 else -whole).scaleb(-decimals, Context(prec=_MOST_BITS))


class Language:
    """A language in which requests are understood.

    Attributes:
        code: of ISO 639-1.
        decimal_mark: between a number's whole part and its decimals.
        spellings: the words of the lexicon that have a value, by terminal.
        says: what is said in answers, by name.
        words: that the grammar has.
        object: matches what a request is about, where it begins with that.
        parse: gives the reading of a whole text from a start of the grammar, None where there is none.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.decimal_mark = {"en": ".", "de": ","}[code]
        folder = files(__package__)
        lexicon = yaml.load((folder / "lexicon.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.spellings: dict[str, dict[str, Any]] = lexicon[code]
        self.says: dict[str, Any] = lexicon["says"][code]
        frame = {name: f"(?:{_any_of(words.split('|'))})" for name, words in lexicon["frames"][code].items()}
        self._polite = re.compile(
            rf"^(?:{frame['opening']}\b[\s,!.]*)+|(?:[\s,]+{frame['closing']})+(?=[\s.!?]*$)|!+$", re.IGNORECASE
        )
        self.object = re.compile(rf"^(?:{frame['object']}\s+)?(?:{frame['noun']}\s+)*\ue002\s*[,:]?\s*", re.IGNORECASE)
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
        grammar = "\n".join((folder / f"{name}.lark").read_text("utf-8") for name in ("common", code))
        for i, group in enumerate(dict.fromkeys(_GROUP.findall(grammar))):
            grammar = grammar.replace(f"({group})", f"_GROUP_{i}") + f"\n_GROUP_{i}: {group}"
        rules: dict[str, str] = {}
        grammar = _RULE.sub(
            lambda rule: _OPTIONAL.sub(lambda found: rules.setdefault(found[0], f"_optional_{len(rules)}"), rule[0]),
            grammar,
        )
        grammar += "".join(f"\n{name}: {optional}" for optional, name in rules.items())
        money = [name for name, units in self._units.items() if units[0].dimension in _MONEY]
        for terminal, words in {**self.spellings, "UNIT": self._units, "CURRENCY": money}.items():
            grammar += f"\n{terminal}: /{_any_of(words)}/"
        said = "".join(re.findall(r'"[^"\n]*"|/(?:[^/\\\n]|\\.)+/', re.sub("(?m)^//.*", "", grammar)))
        self.words = frozenset(re.findall(rf"{_LETTER}{{2,}}", said.lower()))
        parser = Lark(
            grammar,
            parser="earley",
            start=[*DOMAINS, "sum", "date"],
            g_regex_flags=re.IGNORECASE,
            propagate_positions=True,
            maybe_placeholders=False,
            edit_terminals=_within_edges,
        )
        self.rules = parser.rules

        @lru_cache(maxsize=512)
        def parse(text: str, start: str) -> Tree[Token] | None:
            try:
                return parser.parse(text, start)
            except (LarkError, RuntimeError):  # the latter is a bug of lark's Earley parser on ambiguous texts
                return None

        self.parse = parse

    def without_politeness(self, text: str) -> str:
        """A request without the words that say nothing, around it; what comes after a colon stays as it is."""
        asked, colon, given = text.partition(": ")
        bare = self._polite.sub("", _DASH.sub(", ", asked))
        return (_THEN.sub("", _FORMAL.sub("e", bare)) if self.code == "de" else bare) + colon + given

    def value(self, word: Token) -> Any:
        """What a word of the lexicon stands for."""
        return self._values[word.type][re.sub(r"\s+", " ", word).lower()]

    def name(self, terminal: str, value: int) -> str:
        """The first word of the lexicon with this value."""
        return next(word for word, meaning in self.spellings[terminal].items() if meaning == value)

    def units(self, name: str) -> tuple[Unit, ...]:
        """The units of this name as it is written (`mb`, `Mb`), or else in whatever case."""
        name = re.sub(r"\s+", " ", name)
        return tuple(self._units.get(name) or self._units_in_any_case[name.lower()])

    def number(self, digits: str) -> Fraction:
        """The value of digits with marks; raises `ValueError` where they are no number."""
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
