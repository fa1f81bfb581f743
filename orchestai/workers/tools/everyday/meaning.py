"""What the rules of the grammars mean that is said in one expression: tables by the name of the rule."""

from __future__ import annotations

import calendar
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from fractions import Fraction
from functools import partial, reduce
from itertools import chain
from typing import Any

from dateutil.relativedelta import relativedelta
from lark import Discard, Token

from orchestai.workers.base import ImpossibleError, WorkerError
from orchestai.workers.tools.everyday.language import PERCENT, Quantity, Unit

ASIDE, HERE = "\ue000", "\ue002"
"""Stand in the words for a text that the request gives, and for what they are about."""
QUOTED = (
    r"\"[^\"]*\"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|‚[^‚‘’]*[‘’]|‘[^‘’]*’|"
    r"(?<!\w)'[^'\n]*(?:'\w[^'\n]*){0,9}'(?!\w)"
)
Yearly = Callable[[int], date]
"""The day of a year."""
Day = date | Yearly
LARGEST_FACTORIAL, LARGEST_POWER, _LARGEST_PRIME, MOST_NUMBERS = 500, 2000, 10**12, 1000
_SIGNS = ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I")
ROMAN = tuple(zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), _SIGNS, strict=True))
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


def _reduction(*parts: Quantity) -> Quantity:
    """How much money a reduction in per cent is, of a price."""
    percent, cost = sorted(parts, key=lambda part: not part.is_percent)
    if cost.is_percent or percent.amount > 100:
        raise WorkerError("a price and a reduction of at most 100 % are wanted")
    return cost.times(percent)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def at_most(number: int, largest: int, what: str) -> int:
    if not 0 < number <= largest:
        raise ImpossibleError(what)
    return number


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 or not factors else factors


def _positive(one: Quantity) -> int:
    if not 0 < one.whole <= _LARGEST_PRIME:
        raise WorkerError("a positive whole number that is not too large is wanted")
    return one.whole


def roman(number: int) -> str:
    if not 0 < number < 4000:
        raise ImpossibleError("Roman numerals go from 1 to 3999")
    signs = ""
    for value, sign in ROMAN:
        signs, number = signs + sign * (number // value), number % value
    return signs


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


def _camel(text: str) -> str:
    first, *others = re.findall(r"[^\W_]+", text) or [""]
    return first.lower() + "".join(word.capitalize() for word in others)


def _sorted_words(text: str) -> str:
    lines = "\n" in text
    return ("\n" if lines else " ").join(sorted(text.splitlines() if lines else text.split(), key=str.lower))


CHANGES: dict[str, Callable[[str], str]] = {
    "reverse": lambda text: "".join(reversed(re.findall(r"(?s).[\u0300-\u036f\ufe0f]*", text))),
    "backwards": lambda text: CHANGES["reverse"](text),
    "reverse_words": lambda text: " ".join(reversed(text.split())),
    "reverse_each": lambda text: re.sub(r"\S+", lambda word: word[0][::-1], text),
    "upper": str.upper,
    "lower": str.lower,
    "title": lambda text: re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:], text),
    "sentence_case": lambda text: re.sub(r"(?:^|(?<=[.!?]\s))\s*[^\W\d_]", lambda first: first[0].upper(), text),
    "swap_case": str.swapcase,
    "snake": lambda text: "_".join(re.findall(r"[^\W_]+", text)).lower(),
    "kebab": lambda text: "-".join(re.findall(r"[^\W_]+", text)).lower(),
    "camel": _camel,
    "trim": str.strip,
    "sort_words": _sorted_words,
    "sort_letters": lambda text: "".join(sorted(pieces_of("LETTERS", text), key=lambda one: (one.lower(), one))),
    "spell": lambda text: "-".join(pieces_of("CHARACTERS", text)),
    "initials": lambda text: "".join(word[0].upper() for word in pieces_of("WORDS", text)),
    "length": lambda text: str(len(text)),
    "word_count": lambda text: str(len(pieces_of("WORDS", text))),
}
"""What changes a text, by the name of a rule or a style."""
STORIES: dict[str, Callable[..., Quantity]] = {
    "discount": lambda r, *parts: max(parts, key=lambda part: not part.is_percent).plus(_reduction(*parts), -1),
    "reduction": lambda r, *parts: _reduction(*parts),
    "total_price": lambda r, *parts: r.multiply(*parts),
    "proportion": lambda r, number, cost, other: cost.times(other.over(number)),
    "proportion_turned": lambda r, cost, number, other: cost.times(other.over(number)),
    "subtract_part": lambda r, one, part: one.plus(one.times(part), -1),
    "before_percent": lambda r, cost, percent: cost.over(Quantity(1 + percent.number)),
    "whole_of": lambda r, part, percent: part.over(Quantity(percent.number)),
    "how_often": lambda r, small, large: number_of(math.floor(large.over(small).number)),
    "add": lambda r, one, other: one.plus(other),
    "subtract": lambda r, one, other: one.plus(other, -1),
    "distance": lambda r, one, other: STORIES["absolute"](r, one.plus(other, -1)),
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
}
"""What rules mean that work on quantities alone, whatever else is told beside them."""


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
    "noun": lambda r, thing: re.sub(r"(?:e[ns]?|[ns])$", "", thing.lower()),
    "counted": lambda r, number, thing, *_: Quantity(
        number.number, (Unit("", MEANINGS["noun"](r, thing), Fraction(1), Fraction(0), "", ""),)
    ),
    "given": lambda r: r.given_quantity(),
    "it_as_number": lambda r, _: r.given_quantity(),
    "series": lambda r, *parts: list(parts),
    # Calculations
    "sum_of": lambda r, *parts: total(*parts),
    "product_of": lambda r, numbers: reduce(Quantity.times, numbers),
    "divide": lambda r, one, other: r.quotient(one, other),
    "remainder": lambda r, one, other: Quantity(one.number % _not_zero(other).number),
    "primality": lambda r, one: r.yes(is_prime(at_most(max(one.whole, 1), _LARGEST_PRIME, "the number is too large"))),
    "parity_of": lambda r, one: r.say("odd" if one.whole % 2 else "even"),
    "common_divisor": lambda r, numbers: number_of(math.gcd(*(one.whole for one in numbers))),
    "common_multiple": lambda r, numbers: number_of(math.lcm(*(one.whole for one in numbers))),
    "things": lambda r, *_: Discard,
    "converted": lambda r, value: value,
    "taken": lambda r, value: value,
    "rate": lambda r, cost, unit, amount: cost.times(amount.over(r.measure_of(number_of(1), unit))),
    "unit_price": lambda r, unit, cost, amount: cost.times(amount.over(r.measure_of(number_of(1), unit))),
    "rate_of": lambda r, amount, span, unit, each: amount.converted(r.language.units(unit)).over(
        Quantity(span.over(r.measure_of(number_of(1), each)).number)
    ),
    "divisors": lambda r, one: ", ".join(map(str, _divisors(_positive(one)))),
    "prime_factors": lambda r, one: " × ".join(map(str, _prime_factors(_positive(one)))),
    "multiples": lambda r, number, of: ", ".join(r.shown(of.times(n + 1)) for n in range(r.so_few(number))),
    "convert": lambda r, quantity, unit: quantity.converted(r.language.units(unit)),
    "convert_between": lambda r, amount, unit, other: r.measure_of(amount, unit).converted(r.language.units(other)),
    "in_base": lambda r, one, base: (
        roman(one.whole) if base.type == "ROMAN" else format(one.whole, "b" if base.type == "BINARY" else "X")
    ),
    # Texts
    "quoted": lambda r, text: str(text[1:-1]).replace(ASIDE, r.aside),
    "word": lambda r, word: _Word(r.free(word)),
    "named": lambda r, word: str(word),
    "style": lambda r, *styles: list(styles),
    "text_it": lambda r, _: r.it(),
    "kinds": lambda r, kind: kind.type,
    "kind": lambda r, _: "WORDS",
    "prepend": lambda r, piece, text=None: piece + r.the(text),
    "starts_with": lambda r, text, piece: r.yes(text.lower().startswith(piece.lower())),
    "ends_with": lambda r, text, piece: r.yes(text.lower().endswith(piece.lower())),
    "contains": lambda r, text, piece: r.yes(piece.lower() in text.lower()),
    "anagram": lambda r, *texts: r.yes(
        len({"".join(sorted(pieces_of("LETTERS", text.lower()))) for text in texts}) == 1
    ),
    "palindrome": lambda r, text: r.yes((letters := pieces_of("LETTERS", r.the(text).lower())) == letters[::-1]),
    "between_letters": lambda r, piece, text=None: piece.join(r.the(text)),
    "on_lines": lambda r, *parts: "\n".join(r.split_up(*parts)),
    "split": lambda r, *parts: ", ".join(r.split_up(*parts)),
    "count": lambda r, kind, text=None: str(len(pieces_of(kind, r.the(text)))),
    "tally": lambda r, piece: partial(MEANINGS["count" if piece in PIECES else "occurrences"], r, piece),
    "frequencies": lambda r, text=None: ", ".join(
        f"{letter}: {times}" for letter, times in Counter(pieces_of("LETTERS", r.the(text).lower())).items()
    ),
    "only": lambda r, kind, text=None: ("" if kind in ("LETTERS", "DIGITS", "CAPITALS") else ", ").join(
        pieces_of(kind, r.the(text))
    ),
    "count_different": lambda r, kind, text: str(len({piece.lower() for piece in pieces_of(kind, text)})),
    "occurrences": lambda r, piece, text=None: str(r.the(text).lower().count(piece.lower())),
    "word_occurrences": lambda r, piece, text=None: str(
        len(re.findall(rf"(?<!\w){re.escape(piece)}(?!\w)", r.the(text), re.IGNORECASE))
    ),
    "pick": lambda r, ordinal, kind, text=None: nth_of(pieces_of(kind, r.the(text)), r.language.value(ordinal)),
    "pick_some": lambda r, *parts: r.end(0, *parts),
    "without_some": lambda r, *parts: r.end(1, *parts),
    "without_piece": lambda r, piece, text=None: r.replace(piece, "", text),
    "replace_in": lambda r, text, old, new: r.replace(old, new, text),
    "concatenate": lambda r, one, other: (one[1:-1] + other[1:-1]).replace(ASIDE, r.aside),
    # Lists
    "items_rest": lambda r, text: r.items_of(text[1:].replace(ASIDE, r.aside)),
    "items_it": lambda r, _: r.these(None),
    "reverse_list": lambda r, items: ", ".join(reversed(items)),
    "unique": lambda r, items=None: ", ".join(dict.fromkeys(r.these(items))),
    "repeated": lambda r, items: r.listed(one for one, times in Counter[str](items).items() if times > 1),
    "nth": lambda r, ordinal, items=None: nth_of(r.these(items), r.language.value(ordinal)),
    "several_turned": lambda r, number, which, items=None: r.several(which, number, items),
    "measure_both": lambda r, one, other, items=None: r.say("and").join(r.measure(one, items) for one in (one, other)),
    "measure_several": lambda r, statistic, *parts: r.measure(statistic, r.items_of(r.several(*parts))),
    "ranked": lambda r, place, which, items=None: r.rank(
        r.language.value(place) * (1 if which.type == "MAXIMUM" else -1), items
    ),
    "ranked_word": lambda r, which, items=None: r.rank(r.language.value(which), items),
    "limit": lambda r, which, number: r.beyond(
        which, "BIGGER", number.number, lambda item: r.quantities([item])[0].amount
    ),
    "sort_of_number": lambda r, which: lambda item: SORTS_OF_NUMBER[which.type](r.quantities([item])[0]),
    "divisible": lambda r, number: lambda item: r.quantities([item])[0].number % _not_zero(number).number == 0,
    "beginning": lambda r, letter: lambda item: item.lower().startswith(r.piece(letter).lower()),
    "ending": lambda r, letter: lambda item: item.lower().endswith(r.piece(letter).lower()),
    "containing": lambda r, letter: lambda item: r.piece(letter).lower() in item.lower(),
    "longer": lambda r, which, number: r.beyond(which, "LONGER", number.number, len),
    "kept": lambda r, keep, items=None: r.listed(filter(keep, r.these(items))),
    "dropped": lambda r, drop, items=None: r.listed(item for item in r.these(items) if not drop(item)),
    "kept_count": lambda r, *parts: str(
        len([*filter(next(part for part in parts if callable(part)), r.these(first_of(parts, list)))])
    ),
    "kept_measure": lambda r, statistic, keep, items=None: r.measure(statistic, [*filter(keep, r.these(items))]),
    "each_times": lambda r, *parts: r.each(Quantity.times, *parts),
    "each_over": lambda r, *parts: r.each(Quantity.over, *parts),
    "each_plus": lambda r, *parts: r.each(Quantity.plus, *parts),
    "each_minus": lambda r, *parts: r.each(lambda one, other: one.plus(other, -1), *parts),
    "each_square": lambda r, *parts: r.each(lambda one: one.times(one.number), *parts),
    "join": lambda r, one, other=None: one.join(r.these(None)) if isinstance(one, str) else str(other).join(one),
    "joined": lambda r, items=None: " ".join(r.these(items)),
    # Days
    "first_of_month": lambda r, month, year: day_of(int(year), r.language.value(month), 1),
    "month_day": lambda r, month, day, *year: r.day_month(day, month, *year),
    "on_weekday": lambda r, _, day: day,
    "relative_day": lambda r, word: r.now.date() + timedelta(days=r.language.value(word)),
    "relative_year": lambda r, word: Token("YEAR", str(r.now.year + r.language.value(word))),
    "duration": lambda r, first, *others: sum(others, first),
    "earlier": lambda r, duration, *day: r.later(-duration, *day),
    "weekday": lambda r, day: r.language.name("WEEKDAY", r.next(day).weekday()),
    "year_length": lambda r, year: str(365 + calendar.isleap(int(year))),
    "between": lambda r, period, *days: r.counted_days(*r.span(*days), period),
    "between_years": lambda r, period, *years: r.counted_days(*r.span(*(date(int(y), 1, 1) for y in years)), period),
    "left_of_year": lambda r, period: r.counted_days(r.now.date(), date(r.now.year, 12, 31), period),
    "age": lambda r, born: str(relativedelta(r.now.date(), nearest(born, r.now.date(), -1)).years),
    "age_in": lambda r, born, year: str(int(year) - int(born)),
    "leap_year": lambda r, year: r.yes(calendar.isleap(int(year))),
    "day_of_year": lambda r, day: str(r.next(day).timetuple().tm_yday),
    "week": lambda r, day: str(r.next(day).isocalendar().week),
    "this_year": lambda r: str(r.now.year),
    "this_month": lambda r: r.language.name("MONTH", r.now.month),
    "this_time": lambda r: f"{r.now:%H:%M}",
    "in_days": lambda r: Token("PERIOD", next(iter(r.language.spellings["PERIOD"]))),
    "clock_earlier": lambda r, *parts: r.clock_later(*parts, sign=-1),
    "from_now": lambda r, *parts: r.clock_later(60 * r.now.hour + r.now.minute, *parts),
    "until_now": lambda r, *parts: r.clock_later(60 * r.now.hour + r.now.minute, *parts, sign=-1),
    # The program
    "version": lambda r: r.say("{version}"),
    "both": lambda r, *said: "\n".join(said),
}
"""What rules mean: of the evaluator and of what their parts gave."""
