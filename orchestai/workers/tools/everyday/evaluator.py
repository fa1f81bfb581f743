"""What the rules of the grammars mean: in one expression in the tables, else in the method of the rule's name."""

from __future__ import annotations

import calendar
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from importlib.metadata import version
from itertools import chain
from statistics import median
from typing import Any

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta, weekday
from lark import Token, Transformer, Tree, v_args
from lark.exceptions import VisitError
from text_to_num import text2num

from orchestai.workers.base import ImpossibleError, WorkerCard, WorkerError
from orchestai.workers.tools.everyday.language import PERCENT, Language, Quantity, rounded

ASIDE, HERE = "\ue000", "\ue002"
"""Stand in the words for a text that the request gives, and for what they are about."""
QUOTED = (
    r"\"[^\"]*\"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|‚[^‚‘’]*[‘’]|‘[^‘’]*’|"
    r"(?<!\w)'[^'\n]*(?:'\w[^'\n]*){0,9}'(?!\w)"
)
Yearly = Callable[[int], date]
"""The day of a year."""
Day = date | Yearly
_LARGEST_FACTORIAL, _LARGEST_POWER, _LARGEST_PRIME = 500, 2000, 10**12
_TITLES = ("Dr", "Mr", "Mrs", "Ms", "St", "Prof", "Nr", "No", "vs", "ca", "bzw")
_ABBREVIATED = "|".join(rf"(?<=\b{word})" for word in _TITLES)
PIECES = {
    "LETTERS": r"[^\W\d_]",
    "CHARACTERS": r"(?s:.)",
    "WORDS": r"\w+(?:['’.\-]\w+)*",
    "VOWELS": r"[aeiouäöüáàâéèêëíìîïóòôúùûæœø]",
    "CONSONANTS": r"(?![aeiouäöüáàâéèêëíìîïóòôúùûæœø])[^\W\d_]",
    "DIGITS": r"\d",
    "SPACES": r"\s",
    "SENTENCES": rf"[^.!?…\s](?:[^.!?…]|(?:{_ABBREVIATED})\.|[.!?…]+(?!\s|$)|\.(?-i:(?=\s+[a-zäöü])))*[.!?…]*",
    "LINES": r"[^\n]*\S[^\n]*",
    "CAPITALS": r"(?-i:(?=[^\W\d_])[^a-zß-öø-ÿ\W\d_])",
    "PUNCTUATION": r"[^\w\s]",
    "NUMERALS": r"-?\d+(?:[.,]\d+)*",
    "EMAILS": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "LINKS": r"(?:https?://|www\.)\S*[\w/]",
}
"""What the kinds of pieces are that a text is counted, searched and cut by."""
_OF_A_WORD = ("LETTERS", "CHARACTERS", "VOWELS", "CONSONANTS", "CAPITALS")


class _Word(str):
    """A word that stands alone, without quotes."""


def shown(value: object, decimal_mark: str) -> str:
    """A value as a text."""
    return value.shown(decimal_mark) if isinstance(value, Quantity) else str(value)


def first_of(parts: Iterable[Any], kind: type | tuple[type, ...]) -> Any:
    """The first part of a kind, None where there is none; a token is no text."""
    return next((p for p in parts if isinstance(p, kind) and (kind is Token or not isinstance(p, Token))), None)


def number_of(value: int | Fraction) -> Quantity:
    return Quantity(Fraction(value))


def total(*parts: Quantity | list[Quantity]) -> Quantity:
    return reduce(Quantity.plus, chain.from_iterable(part if isinstance(part, list) else [part] for part in parts))


def is_prime(number: int) -> bool:
    if number > _LARGEST_PRIME:
        raise ImpossibleError("the number is too large")
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def pieces_of(kind: str, text: str) -> list[str]:
    if isinstance(text, _Word) and kind not in _OF_A_WORD:
        raise WorkerError(f"{text!r} may be the name of a text, and none is given")
    if text.isdecimal() and kind not in ("DIGITS", "CHARACTERS"):
        raise WorkerError(f"{text} is a number, and no text")
    return [piece.strip() if len(piece) > 1 else piece for piece in re.findall(PIECES[kind], text, re.IGNORECASE)]


def nth_of(pieces: list[str], place: int) -> str:
    if not -len(pieces) <= place <= len(pieces):
        raise WorkerError(f"there are only {len(pieces)}")
    return pieces[place - (place > 0)]


def day_of(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise ImpossibleError(f"there is no day {day} of month {month} in {year}") from None


def nearest(day: Day, start: date, step: int = 1) -> date:
    """Its first occurrence from a day on, or its last one until then (-1); of 29 February, in years that have it."""
    if isinstance(day, date):
        return day
    for year in range(start.year, start.year + 9 * step, step):
        if (month_day := day(2000)).month == 2 and month_day.day == 29 and not calendar.isleap(year):
            continue
        if (found := day(year)) == start or (found > start) == (step > 0):
            return found
    raise ImpossibleError("the calendar does not go so far")


def _sorted_words(text: str) -> str:
    lines = "\n" in text
    return ("\n" if lines else " ").join(sorted(text.splitlines() if lines else text.split(), key=str.lower))


Items = list[str]
Filter = Callable[[str], bool]
_ROOT = Context(prec=40)
_MOST_PLAIN, _LONGEST = 5, 20_000
_NAMED_SIGNS = {
    **{"SPACES": " ", "UNDERSCORE": "_", "HYPHEN": "-", "COMMA": ",", "SEMICOLON": ";"},
    **{"PERIOD_SIGN": ".", "SLASH": "/", "BREAK": "\n", "EXCLAMATION": "!", "QUESTION": "?"},
}
_UNSAID = re.compile(
    r"(?:an?|my|your|our|his|her|every|each|all|some|any|no|to|that|which|who|how|why|what|when|where|is|are|you|i|we|us"
    r"|on|of|for|with|about|by|at|from|as|ein|eine[nmrs]?|mein\w*|dein\w*|unser\w*|jede\w*|alle|einige|dass|wie|was|warum"
    r"|wer|wo|wann|ich|wir|mir|uns|auf|von|für|mit|über|bei|an|zu|aus)\s|(?:alphabet|english|german|french|spanish|englisch|deutsch|englischen|deutschen)$",
    re.IGNORECASE,
)
"""How something begins that is spoken of, and not given."""
_ARTICLE = re.compile(r"\b(?:the|der|die|das|den|dem|des)\s+$", re.IGNORECASE)
_CONDITION = re.compile(
    r",\s+(?:ignoring|excluding|without|except|including|not counting|counting|ohne|außer|wobei)\b[^,]*$", re.IGNORECASE
)
"""How a text ends that may say how it is to be read."""
_AND = r"\s+(?:and|or|und|oder|&)\s+"
_FURTHER_STEP = re.compile(
    r"(?i)(?:then |dann )?(?:show|count|sort|reverse|find|give|take|add|join|remove|print|tell|return|pick|keep|zeige?|"
    r"zähle?|sortiere?|nimm|gib|finde|entferne|addiere) (?:the|it|them|me|only|how|up|die|das|den|sie|es|mir|nur|wie)\b"
)


def all_of(parts: Iterable[Any], kind: type) -> list[Any]:
    return [part for part in parts if isinstance(part, kind) and (kind is Token or not isinstance(part, Token))]


def _amounts(numbers: list[Quantity]) -> list[Fraction]:
    """In the unit of the first."""
    first, *others = numbers
    return [first.amount, *(first.plus(other).amount - first.amount for other in others)]


def _collated(item: str) -> tuple[str, str]:
    """Key for an order in which accents and capitals count last."""
    return "".join(
        sign for sign in unicodedata.normalize("NFD", item.casefold()) if not unicodedata.combining(sign)
    ), item


_STATISTICS: dict[str, Callable[[list[Quantity]], Quantity]] = {
    "TOTAL": total,
    "PRODUCT": lambda numbers: reduce(Quantity.times, numbers),
    "MEAN": lambda numbers: total(numbers).times(Fraction(1, len(numbers))),
    "MEDIAN": lambda numbers: Quantity(median(number.number for number in numbers)),
    "SPREAD": lambda numbers: Quantity(max(_amounts(numbers)) - min(_amounts(numbers)), numbers[0].units),
}


_LENGTHS = {"fortnights": ("days", 14), "weeks": ("days", 7), "decades": ("years", 10)}


def _yearly(month: int, day: int, year: int | None = None) -> Day:
    if year is not None:
        return day_of(year, month, day)
    day_of(2000, month, day)
    return lambda year: day_of(year, month, day)


def _weekday_of(month: int, place: int, day: int) -> Yearly:
    """The first, second ... weekday of a month; -1 is its last."""
    nearest = relativedelta(day=1 if place > 0 else 31, weekday=weekday(day, place))
    return lambda year: date(year, month, 1) + nearest


CHANGES: dict[str, Callable[[str], str]] = {
    "reverse": lambda text: "".join(reversed(re.findall(r"(?s).[\u0300-\u036f\ufe0f]*", text))),
    "reverse_words": lambda text: " ".join(reversed(text.split())),
    "upper": str.upper,
    "lower": str.lower,
    "title": lambda text: re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:], text),
    "sort_words": _sorted_words,
    "length": lambda text: str(len(text)),
    "word_count": lambda text: str(len(pieces_of("WORDS", text))),
}
"""What changes a text, by the name of a rule or a style."""


def _not_zero(divisor: Quantity) -> Quantity:
    if divisor.number == 0:
        raise ImpossibleError("nothing can be divided by zero")
    return divisor


SORTS_OF_NUMBER: dict[str, Callable[[Quantity], bool]] = {
    "EVEN": lambda one: one.number % 2 == 0,
    "ODD": lambda one: one.number % 2 == 1,
    "PRIME": lambda one: is_prime(one.whole),
    "POSITIVE": lambda one: one.amount > 0,
    "NEGATIVE": lambda one: one.amount < 0,
}
MEANINGS: dict[str, Callable[..., Any]] = {
    # Numbers and quantities
    "decimal": lambda r, digits: Quantity(r.language.number(digits)),
    "lexical": lambda r, word: Quantity(Fraction(r.language.value(word))),
    "scaled": lambda r, number, scale: number.times(r.language.value(scale)),
    "vulgar": lambda r, sign: Quantity(Fraction(unicodedata.numeric(sign)).limit_denominator(100)),
    "fraction": lambda r, digits: reduce(Quantity.over, (number_of(Fraction(n)) for n in re.split("[/⁄]", digits))),
    "share": lambda r, word: Quantity(1 / Fraction(r.language.value(word))),
    "part": lambda r, amount, unit: Quantity(amount.number, r.language.units(unit)),
    "feet_and_inches": lambda r, feet, inches: total(r.measure_of(feet, "feet"), r.measure_of(inches, "inches")),
    "one": lambda r, unit: r.measure_of(number_of(1), unit),
    "quantity": lambda r, *parts: total(*parts),
    "given": lambda r: r.given_quantity(),
    "it_as_number": lambda r, _: r.given_quantity(),
    "series": lambda r, *parts: list(parts),
    # Calculations
    "whole_of": lambda r, part, percent: part.over(Quantity(percent.number)),
    "add": lambda r, one, other: one.plus(other),
    "subtract": lambda r, one, other: one.plus(other, -1),
    "distance": lambda r, one, other: MEANINGS["absolute"](r, one.plus(other, -1)),
    "negate": lambda r, one: one.times(-1),
    "absolute": lambda r, one: one.times(-1 if one.amount < 0 else 1),
    "square": lambda r, one: r.power(one, number_of(2)),
    "cube": lambda r, one: r.power(one, number_of(3)),
    "square_root": lambda r, one: r.root(2, one),
    "cube_root": lambda r, one: r.root(3, one),
    "mixed": lambda r, whole, fraction: whole.plus(fraction),
    "percent": lambda r, amount: Quantity(amount.number, (PERCENT,)),
    "percentage": lambda r, *parts: Quantity(reduce(Quantity.over, parts).number * 100, (PERCENT,)),
    "percent_change": lambda r, old, new: Quantity(new.plus(old, -1).over(old).number * 100, (PERCENT,)),
    "multiply": lambda r, one, other: one.times(other),
    "sum_of": lambda r, *parts: total(*parts),
    "product_of": lambda r, numbers: reduce(Quantity.times, numbers),
    "divide": lambda r, one, other: one.over(other),
    "remainder": lambda r, one, other: Quantity(one.number % _not_zero(other).number),
    "primality": lambda r, one: r.yes(is_prime(one.whole)),
    "common_divisor": lambda r, numbers: number_of(math.gcd(*(one.whole for one in numbers))),
    "common_multiple": lambda r, numbers: number_of(math.lcm(*(one.whole for one in numbers))),
    "taken": lambda r, value: value,
    "convert": lambda r, quantity, unit: quantity.converted(r.language.units(unit)),
    "convert_between": lambda r, amount, unit, other: r.measure_of(amount, unit).converted(r.language.units(other)),
    # Texts
    "quoted": lambda r, text: str(text[1:-1]).replace(ASIDE, r.aside),
    "word": lambda r, word: _Word(r.free(word)),
    "named": lambda r, word: str(word),
    "style": lambda r, *styles: list(styles),
    "text_it": lambda r, _: r.it(),
    "kinds": lambda r, kind: kind.type,
    "kind": lambda r, _: "WORDS",
    "contains": lambda r, text, piece: r.yes(piece.lower() in text.lower()),
    "palindrome": lambda r, text: r.yes((letters := pieces_of("LETTERS", r.the(text).lower())) == letters[::-1]),
    "count": lambda r, kind, text=None: str(len(pieces_of(kind, r.the(text)))),
    "occurrences": lambda r, piece, text=None: str(r.the(text).lower().count(piece.lower())),
    "pick": lambda r, ordinal, kind, text=None: nth_of(pieces_of(kind, r.the(text)), r.language.value(ordinal)),
    "pick_some": lambda r, *parts: r.end(0, *parts),
    "without_some": lambda r, *parts: r.end(1, *parts),
    "without_piece": lambda r, piece, text=None: r.replace(piece, "", text),
    # Lists
    "items_rest": lambda r, text: r.items_of(text[1:].replace(ASIDE, r.aside)),
    "items_it": lambda r, _: r.these(None),
    "reverse_list": lambda r, items: ", ".join(reversed(items)),
    "unique": lambda r, items=None: ", ".join(dict.fromkeys(r.these(items))),
    "nth": lambda r, ordinal, items=None: nth_of(r.these(items), r.language.value(ordinal)),
    "limit": lambda r, which, number: (
        lambda item: (
            r.quantities([item])[0].amount > number.number
            if which.type == "BIGGER"
            else r.quantities([item])[0].amount < number.number
        )
    ),
    "sort_of_number": lambda r, which: lambda item: SORTS_OF_NUMBER[which.type](r.quantities([item])[0]),
    "kept": lambda r, keep, items=None: r.listed(filter(keep, r.these(items))),
    # Days
    "first_of_month": lambda r, month, year: day_of(int(year), r.language.value(month), 1),
    "month_day": lambda r, month, day, *year: r.day_month(day, month, *year),
    "on_weekday": lambda r, _, day: day,
    "relative_day": lambda r, word: r.now.date() + timedelta(days=r.language.value(word)),
    "relative_year": lambda r, word: Token("YEAR", str(r.now.year + r.language.value(word))),
    "duration": lambda r, first, *others: sum(others, first),
    "earlier": lambda r, duration, *day: r.later(-duration, *day),
    "weekday": lambda r, day: r.language.name("WEEKDAY", r.next(day).weekday()),
    "between": lambda r, period, *days: r.counted_days(*r.span(*days), period),
    "age": lambda r, born: str(relativedelta(r.now.date(), nearest(born, r.now.date(), -1)).years),
    "leap_year": lambda r, year: r.yes(calendar.isleap(int(year))),
    "this_year": lambda r: str(r.now.year),
    "this_month": lambda r: r.language.name("MONTH", r.now.month),
    "this_time": lambda r: f"{r.now:%H:%M}",
    "in_days": lambda r: Token("PERIOD", next(iter(r.language.spellings["PERIOD"]))),
    # The program
    "version": lambda r: r.say("{version}"),
    "both": lambda r, *said: "\n".join(said),
}
"""What rules mean: of the evaluator and of what their parts gave."""


@v_args(inline=True)
class Evaluator(Transformer[Token, Any]):
    """Gives the value of a reading: a method without an underscore is called for the rule of its name.

    Args:
        language: of the words.
        words: that are read.
        given: texts of the steps before, or named elsewhere in the request, to which "it" refers.
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
        given: Sequence[str],
        now: datetime,
        pool: Sequence[WorkerCard],
        aside: str,
    ) -> None:
        super().__init__(visit_tokens=False)
        self.language, self.now, self.aside = language, now, aside
        self._words, self._given, self._pool = words, given, pool
        self.used_given = self._wants_iso = False

    def __default__(self, data: str, children: list[Any], meta: Any) -> Any:
        """Look up what a rule means; of one that is named so, its parts come the other way round."""
        name = data.removesuffix("_swapped")
        parts = children[::-1] if name != data else children
        if name in CHANGES:
            return CHANGES[name](self.the(next((part for part in children if not isinstance(part, Token)), None)))
        if name in MEANINGS:
            return MEANINGS[name](self, *parts)
        return self.say(f"{{{name}}}") if name in self.language.says else getattr(self, name)(*parts)

    # What is given, and what is said
    def it(self) -> str:
        self.used_given = True
        if len(self._given) != 1:
            raise WorkerError(f"the words refer to one result of an earlier step, and there are {len(self._given)}")
        return self._texts()[0]

    def _texts(self) -> list[str]:
        return [given.strip() for given in self._given]

    def the(self, text: str | None) -> str:
        """The text, else the one that is given."""
        return self.it() if text is None else text

    def these(self, items: Items | None) -> Items:
        """The items, else those that are given."""
        if items is not None:
            return items
        self.used_given = True
        if not self._given:
            raise WorkerError("the words refer to a list, and none is given")
        return self.items_of(self._texts()[0]) if len(self._given) == 1 else self._texts()

    def given_quantity(self) -> Quantity:
        found: Quantity = self._read(self.it(), "sum")
        return found

    def _read(self, text: str, start: str) -> Any:
        """What a text, which the request gives or refers to, is as a `sum` or a `date`."""
        tree = self.language.parse(text.removesuffix(" (US)"), start)
        if tree is None:
            raise WorkerError(f"{text[:40]!r} is no {'number' if start == 'sum' else start}")
        return self.value_of(tree)

    def value_of(self, tree: Tree[Token]) -> Any:
        """What a reading means; raises `WorkerError` where it cannot be carried out."""
        try:
            return self.transform(tree)
        except VisitError as error:
            raise error.orig_exc from None

    def shown(self, value: object) -> str:
        return shown(value, self.language.decimal_mark)

    def say(self, said: str) -> str:
        """A saying of the language, or words with the names of sayings in braces."""
        if said in self.language.says:
            return str(self.language.says[said])
        has_model = any(card.kind == "model" for card in self._pool)
        known = {
            "version": f"OrchestAI {version('orchestai')}",
            "count": str(len(self._pool)),
            "cards": "\n".join(f"- {card.name}: {card.text}" for card in self._pool),
            "adding": self.language.says["adding_further" if has_model else "adding"],
        }

        def filled(name: re.Match[str]) -> str:
            return known[name[1]] if name[1] in known else re.sub(r"\{(\w+)\}", filled, self.language.says[name[1]])

        if said == "{costs}" and self._given:
            raise WorkerError("what the words ask the price of is the result of an earlier step")
        return re.sub(r"\{(\w+)\}", filled, said)

    def yes(self, is_so: bool) -> str:
        return self.say("yes" if is_so else "no")

    def listed(self, items: Iterable[str]) -> str:
        return ", ".join(items) or self.say("none")

    # Numbers and quantities
    def spelled(self, words: Token) -> Quantity:
        text = re.sub(r"\s+", " ", words.lower())
        if self.language.code == "de":
            text = re.sub(r"^eine[rnms]?$", "ein", text)
        try:
            return number_of(Fraction(text2num(text, self.language.code)))
        except ValueError:
            raise WorkerError(f"{words!r} is no number") from None

    def measure_of(self, amount: Quantity, unit: str | Quantity) -> Quantity:
        """So much of a unit; what has one already stays."""
        return unit if isinstance(unit, Quantity) else Quantity(amount.number, self.language.units(unit))

    def price(self, *parts: Quantity | Token) -> Quantity:
        whole, *cents = (part.number for part in all_of(parts, Quantity))
        if cents and not (cents[0].denominator == 1 and cents[0] < 100):
            raise WorkerError("no price has so many cents")
        return Quantity(whole + sum(cents, Fraction(0)) / 100, self.language.units(first_of(parts, Token)))

    def series_it(self, _: Token) -> list[Quantity]:
        self.used_given = True
        return [self._read(text, "sum") for given in self._texts() for text in re.split(r"[;\n]|, ", given)]

    # Calculations
    def power(self, base: Quantity, exponent: Quantity) -> Quantity:
        if abs(exponent.number) > _LARGEST_POWER or abs(base.number) > 10**12:
            raise WorkerError("the power is too large")
        if base.number == 0 and exponent.number < 0:
            raise ImpossibleError("nothing can be divided by zero")
        if exponent.number.denominator == 1:
            return Quantity(base.number ** int(exponent.number))
        if base.number < 0:
            raise WorkerError("a negative number has no such power")
        digits = [_ROOT.divide(*map(Decimal, part.number.as_integer_ratio())) for part in (base, exponent)]
        return Quantity(Fraction(_ROOT.power(*digits)))

    def root(self, degree: int, one: Quantity) -> Quantity:
        if one.number < 0:
            raise WorkerError("a negative number has no root here")
        exact = Fraction(*(round(float(part) ** (1 / degree)) for part in one.number.as_integer_ratio()))
        return Quantity(exact) if exact**degree == one.number else self.power(one, number_of(Fraction(1, degree)))

    def factorial(self, one: Quantity) -> Quantity:
        if not (one.number.denominator == 1 and 0 <= one.number <= _LARGEST_FACTORIAL):
            raise WorkerError(f"factorials are worked out of whole numbers up to {_LARGEST_FACTORIAL}")
        return number_of(math.factorial(one.whole))

    def round(self, one: Quantity, decimals: Quantity | Token | None = None) -> Quantity:
        places = (
            int(self.language.value(decimals)) if isinstance(decimals, Token) else decimals.whole if decimals else 0
        )
        if abs(places) > 30:
            raise WorkerError("so many decimals are not shown")
        return Quantity(Fraction(rounded(one.amount, places)), one.units)

    # Texts
    def rest(self, text: Token) -> str:
        given = text[1:].strip().replace(ASIDE, self.aside)
        if _CONDITION.search(given):
            raise WorkerError("whether the text's last words belong to it is not clear; put it in quotes")
        return re.sub(rf"^(?:{QUOTED})$", lambda quoted: quoted[0][1:-1], given)

    def plain(self, *words: Token) -> str:
        if len(words) > _MOST_PLAIN:
            raise WorkerError("where a text begins and ends is not clear; put it in quotes")
        return self.free(*words)

    def free(self, *words: Token) -> str:
        text, before = self._words[words[0].start_pos : words[-1].end_pos], self._words[: words[0].start_pos]
        if _UNSAID.match(text) or _CONDITION.search(text) or ": " in text or _ARTICLE.search(before):
            raise WorkerError(f"{text[:40]!r} is spoken of, and no text to work on")
        return text

    def piece(self, piece: Token) -> str:
        if piece.type == "QUOTED":
            return piece[1:-1]
        return piece[0] if piece.type == "LETTER" else _NAMED_SIGNS.get(piece.type, str(piece))

    def written(self, *parts: str | list[Token]) -> str:
        text = self.the(first_of(parts, str))
        for style in first_of(parts, list):
            text = CHANGES[style.type.lower()](text)
        return text

    def end(self, which: int, *parts: Token | Quantity | str) -> str:
        """So many pieces at a text's beginning or end (0), or the others (1)."""
        place = self.language.value(first_of(parts, Token))
        times = number.whole if (number := first_of(parts, Quantity)) else 1
        kind, *text = sorted(all_of(parts, str), key=lambda part: part not in PIECES)
        pieces = pieces_of(kind, self.the(text[0] if text else None))
        if place not in (1, -1) or not 0 < times <= len(pieces):
            raise WorkerError(f"of {len(pieces)}, these are at no end")
        at, mark = times * place, "\n" if kind == "LINES" else " " if kind in ("WORDS", "SENTENCES") else ""
        return mark.join(pieces[:at] if place == 1 - 2 * which else pieces[at:])

    def without(self, kind: str, text: str | None = None) -> str:
        kept = re.sub(PIECES[kind], "", self.the(text), flags=re.IGNORECASE)
        return kept if kind == "SPACES" else re.sub(r" {2,}", " ", kept).strip()

    def replace(self, old: str, new: str, text: str | None = None) -> str:
        if old not in (whole := self.the(text)):
            raise WorkerError(f"the text has no {old!r}")
        return whole.replace(old, new)

    # Lists
    def items(self, *words: Token) -> Items:
        """The list that stands among the words of the request."""
        items = self.items_of(self._words[words[0].start_pos : words[-1].end_pos])
        if _ARTICLE.search(self._words[: words[0].start_pos]) or any(
            _UNSAID.match(item) or item.count(" ") > 1 for item in items if not self._is_number(item)
        ):
            raise WorkerError("the items are spoken of, and no list to work on")
        return items

    def items_of(self, text: str) -> Items:
        """The items of a list in words: between commas, semicolons or line breaks, or numbers in a row."""
        bare = re.fullmatch(r"(?s)[\[({]?\s*(.*?)\s*[\])}]?\s*[.?!]?", text.strip())[1]  # type: ignore[index]
        mark = next((mark for mark in (r"\n", r";", r",\s+") if re.search(mark, bare)), _AND)
        *parts, last = re.split(mark, bare)
        parts += re.split(_AND, re.sub(_AND.replace(r"\s+", "^", 1), "", last.strip()), maxsplit=1)
        if any(map(_FURTHER_STEP.match, parts)):
            raise WorkerError("what stands among the items is a further step")
        if len(parts) == 1 and all(map(self._is_number, bare.split())):
            parts = bare.split()
        elif mark == _AND:
            parts = [item for part in parts for item in ([part] if self._is_number(part) else part.split(","))]
        unquoted = r"^(['\"“„«»‚‘`])(.*)(['\"”“»«‘’`])$"
        found = [re.sub(unquoted, r"\2", part.strip()) for part in parts if part.strip()]
        if len(found) < 2 or _CONDITION.search(text):
            raise WorkerError(f"{text[:40]!r} is no list")
        return found

    def _is_number(self, item: str) -> bool:
        try:
            return self.language.number(item.strip()) is not None
        except ValueError:
            return False

    def quantities(self, items: Items) -> list[Quantity]:
        return [
            Quantity(self.language.number(item)) if self._is_number(item) else self._read(item, "sum") for item in items
        ]

    def sort(self, *parts: Items | Token) -> str:
        items, order = self.these(first_of(parts, list)), first_of(parts, Token)
        kind = order.type if order is not None else "ASCENDING"
        if kind.startswith("BY_LENGTH"):
            return ", ".join(sorted(items, key=len, reverse=kind.endswith("DOWN")))
        try:
            amounts = _amounts(self.quantities(items)) if kind != "ALPHABETIC" else []
        except WorkerError:
            amounts = []
        in_order = (
            [item for _, item in sorted(zip(amounts, items, strict=True))] if amounts else sorted(items, key=_collated)
        )
        return ", ".join(reversed(in_order) if kind == "DESCENDING" else in_order)

    def measure(self, statistic: Token, items: Items | None = None) -> str:
        if not (chosen := self.these(items)):
            return self.say("none")
        kind = statistic.type
        if kind in ("LONGEST", "SHORTEST"):
            return (max if kind == "LONGEST" else min)(chosen, key=len)
        if kind in ("COUNT", "DISTINCT"):
            return str(len(chosen if kind == "COUNT" else set(chosen)))
        if kind == "MODE":
            (best, times), *others = Counter(chosen).most_common()
            if times == 1 or (others and others[0][1] == times):
                raise WorkerError("no item is the most frequent")
            return best
        if kind == "FIRST":
            return min(chosen, key=_collated)
        numbers = self.quantities(chosen)
        if kind in ("MAXIMUM", "MINIMUM"):
            return (max if kind == "MAXIMUM" else min)(zip(_amounts(numbers), chosen, strict=True))[1]
        return self.shown(_STATISTICS[kind](numbers))

    # Days
    def next(self, day: Day) -> date:
        return nearest(day, self.now.date())

    def iso_date(self, digits: Token) -> date:
        self._wants_iso = True
        return day_of(*map(int, digits.split("-")))

    def dotted_date(self, digits: Token) -> Day:
        day, month, *year = map(int, re.findall(r"\d+", digits))
        return _yearly(month, day, *year)

    def slashed_date(self, digits: Token) -> Day:
        first, second, year = map(int, digits.split("/"))
        if first <= 12 and second <= 12 and first != second:
            raise ImpossibleError(f"{digits} may be two days; write the month as a word")
        return day_of(year, *((second, first) if first > 12 else (first, second)))

    def day_month(self, day: Token, month: Token, *year: Token) -> Day:
        number = int(match[0]) if (match := re.match(r"\d+", day)) else int(self.language.value(day))
        return _yearly(self.language.value(month), number, *map(int, year))

    def feast(self, name: Token, *year: Token) -> Day:
        rule = str(self.language.value(name))
        day: Day
        if rule.startswith("easter"):
            offset = timedelta(days=int(rule.removeprefix("easter")))
            day = lambda year: easter(year) + offset  # noqa: E731
        elif "/" in rule:
            day = _weekday_of(*map(int, rule.split("/")))
        else:
            return _yearly(*map(int, rule.split("-")), *map(int, year))
        return day(int(year[0])) if year else day

    def which_weekday(self, which: Token, day: Token) -> date:
        ahead = (self.language.value(day) - self.now.weekday()) % 7
        step = self.language.value(which)
        return self.now.date() + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * step)

    def period(self, *parts: Any) -> relativedelta:
        *amount, word = parts
        name, length = _LENGTHS.get(name := self.language.value(word), (name, 1))
        number = Fraction(amount[0].number if amount else 1) * length
        if number.denominator != 1 or abs(number) > 10**6:
            raise WorkerError("a whole number of days, months or years is wanted")
        return relativedelta(**{name: int(number)})  # type: ignore[arg-type]

    def later(self, duration: relativedelta, day: Day | None = None) -> date:
        try:
            return (self.next(day) if day else self.now.date()) + duration
        except (OverflowError, ValueError):
            raise ImpossibleError("the calendar does not go so far") from None

    def date_it(self, _: Token) -> Day:
        day: Day = self._read(self.it(), "date")
        return day

    def when(self, day: Day) -> str:
        found = self.next(day)
        names = {"weekday": self.language.name("WEEKDAY", found.weekday()), "day": found.day, "year": found.year}
        said = self.say("date").format(**names, month=self.language.name("MONTH", found.month))
        return found.isoformat() if self._wants_iso else said

    def until(self, period: Token, day: Day) -> str:
        if (end := self.next(day)) < self.now.date():
            raise WorkerError(f"{end} is past")
        return self.counted_days(self.now.date(), end, period)

    def since(self, period: Token, day: Day) -> str:
        if (start := nearest(day, self.now.date(), -1)) > self.now.date():
            raise WorkerError(f"{start} is to come")
        return self.counted_days(start, self.now.date(), period)

    def span(self, one: Day, other: Day) -> tuple[date, date]:
        """The days, the earlier one first."""
        if isinstance(other, date) and not isinstance(one, date):
            return nearest(one, other, -1), other
        start = self.next(one)
        end = nearest(other, start)
        return min(start, end), max(start, end)

    def counted_days(self, start: date, end: date, period: Token) -> str:
        """Time between two days in full periods and the days that are left."""
        name = self.language.value(period)
        apart = relativedelta(end, start)
        if name in ("days", "weeks", "fortnights"):
            whole, left = divmod((end - start).days, {"days": 1, "weeks": 7, "fortnights": 14}[name])
            counts = [(whole, name), (left, "days")]
        elif name == "months":
            counts = [(apart.years * 12 + apart.months, "months"), (apart.days, "days")]
        else:
            years, rest = divmod(apart.years, 10) if name == "decades" else (apart.years, 0)
            counts = [(years, name), (rest, "years"), (apart.months, "months"), (apart.days, "days")]
        parts = []
        for number, name in (counts[0], *(other for other in counts[1:] if other[0])):
            singular, plural = [word for word, value in self.language.spellings["PERIOD"].items() if value == name][:2]
            parts.append(f"{number} {singular if number == 1 else plural}")
        return self.say("and").join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
