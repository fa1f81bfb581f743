"""What the rules for numbers, quantities and calculations mean."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import partialmethod, reduce
from itertools import chain, count, islice
from typing import Any

from lark import Discard, Token, v_args
from text_to_num import text2num

from orchestai.workers.base import ImpossibleError, WorkerError
from orchestai.workers.tools.everyday.language import Unit
from orchestai.workers.tools.everyday.quantity import PERCENT, Quantity, rounded, whole
from orchestai.workers.tools.everyday.reading import Reading

_ROOT = Context(prec=40)
_LARGEST_FACTORIAL = 500
_LARGEST_POWER = 2000
_LARGEST_PRIME = 10**12
_MOST_NUMBERS = 1000
_PRODUCTS = {
    ("length", "length"): "area",
    ("area", "length"): "volume",
    ("speed", "time"): "length",
    ("power", "time"): "energy",
}
_USUAL = {"area": "m²", "volume": "m³", "length": "km", "speed": "km/h", "time": "h", "energy": "kWh", "power": "W"}
_LITERS = {"volume": 1000}
"""Of a volume's first unit in the product of the first units."""
_SIGNS = ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I")
_ROMAN = tuple(zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), _SIGNS, strict=True))
_WORTH = {sign: value for value, sign in _ROMAN if len(sign) == 1}

Numbers = list[Quantity]


@v_args(inline=True)
class Arithmetic(Reading):
    # Numbers and quantities
    def decimal(self, digits: Token) -> Quantity:
        return Quantity(self._language.number(digits))

    def spelled(self, words: Token) -> Quantity:
        text = re.sub(r"\s+", " ", words.lower())
        if self._language.code == "de":
            text = re.sub(r"^eine[rnms]?$", "ein", text)
        try:
            return Quantity(Fraction(text2num(text, self._language.code)))
        except ValueError:
            raise WorkerError(f"{words!r} is no number") from None

    def lexical(self, word: Token) -> Quantity:
        return Quantity(Fraction(self._language.value(word)))

    def scaled(self, number: Quantity, scale: Token) -> Quantity:
        return number.times(self._language.value(scale))

    def vulgar(self, sign: Token) -> Quantity:
        return Quantity(Fraction(unicodedata.numeric(sign)).limit_denominator(100))

    def fraction(self, digits: Token) -> Quantity:
        over, under = (Fraction(number) for number in re.split("[/⁄]", digits))
        return Quantity(over).over(Quantity(under))

    def share(self, word: Token) -> Quantity:
        return Quantity(1 / Fraction(self._language.value(word)))

    def mixed(self, whole: Quantity, fraction: Quantity) -> Quantity:
        return whole.plus(fraction)

    def percent(self, amount: Quantity) -> Quantity:
        return Quantity(amount.number, (PERCENT,))

    def part(self, amount: Quantity, unit: Token) -> Quantity:
        return Quantity(amount.number, self._language.units(unit))

    def feet_and_inches(self, feet: Quantity, inches: Quantity) -> Quantity:
        return self.part(feet, Token("UNIT", "feet")).plus(self.part(inches, Token("UNIT", "inches")))

    def one(self, unit: Token) -> Quantity:
        return Quantity(Fraction(1), self._language.units(unit))

    def quantity(self, first: Quantity, *others: Quantity) -> Quantity:
        return self.sum_of(first, *others)

    def price(self, *parts: Quantity | Token) -> Quantity:
        (currency,) = (part for part in parts if isinstance(part, Token))
        whole, *cents = (part.number for part in parts if isinstance(part, Quantity))
        if cents and not (cents[0].denominator == 1 and cents[0] < 100):
            raise WorkerError("no price has so many cents")
        return Quantity(whole + sum(cents, Fraction(0)) / 100, self._language.units(currency))

    def counted(self, number: Quantity, thing: Token, *_: Token) -> Quantity:
        """So many things, which are not to be added to others."""
        return Quantity(number.number, (Unit("", self.noun(thing), Fraction(1), Fraction(0), "", ""),))

    def noun(self, thing: Token) -> str:
        """A thing's name as of one or many."""
        return re.sub(r"(?:e[ns]?|[ns])$", "", thing.lower())

    def it_as_number(self, _: Token) -> Quantity:
        return self.given()

    def given(self) -> Quantity:
        text = self._it()
        (value,) = self._given
        return value if isinstance(value, Quantity) else self._read(text, "sum")

    def series(self, *parts: Quantity) -> Numbers:
        return list(parts)

    def series_it(self, _: Token) -> Numbers:
        self.used_given = True
        return [self._read(text, "sum") for given in self._texts() for text in re.split(r"[;\n]|, ", given)]

    # Calculations
    def add(self, one: Quantity, other: Quantity) -> Quantity:
        return one.plus(other)

    def subtract(self, one: Quantity, other: Quantity) -> Quantity:
        return one.plus(other, -1)

    def distance(self, one: Quantity, other: Quantity) -> Quantity:
        return self.absolute(one.plus(other, -1))

    def multiply(self, one: Quantity, other: Quantity) -> Quantity:
        if one.is_measure and other.is_measure:
            return self._product(one, other)
        return one.times(other)

    def _product(self, one: Quantity, other: Quantity) -> Quantity:
        """The product of two measures, such as an area."""
        for (first, second), dimension in _PRODUCTS.items():
            for a, b in ((one, other), (other, one)):
                if (own := a.unit_of(first)) and (others := b.unit_of(second)):
                    symbols = (f"{own.symbol}²", own.symbol.replace("²", "³"), own.symbol.split("/")[0])
                    unit = self._language.unit((*symbols, _USUAL[dimension]), dimension)
                    base = a.amount * own.factor * b.amount * others.factor * _LITERS.get(dimension, 1)
                    return Quantity(base / unit.factor, (unit,))
        raise WorkerError("what these measures give together is not known")

    def _quotient(self, one: Quantity, other: Quantity) -> Quantity:
        """The quotient of measures of different kinds, such as a speed."""
        for (first, second), dimension in _PRODUCTS.items():
            for divisor, result in ((first, second), (second, first)):
                if (own := one.unit_of(dimension)) and (others := other.unit_of(divisor)):
                    symbols = (f"{own.symbol}/{others.symbol}", *others.symbol.split("/")[1:])
                    symbols = ("mph", *symbols) if symbols[0] == "mi/h" else symbols
                    unit = self._language.unit((*symbols, _USUAL[result]), result)
                    base = one.amount * own.factor / (other.amount * others.factor * _LITERS.get(dimension, 1))
                    return Quantity(base / unit.factor, (unit,))
        raise WorkerError("what these measures give together is not known")

    def primality(self, one: Quantity) -> str:
        if (number := whole(one)) > _LARGEST_PRIME:
            raise ImpossibleError("the number is too large")
        return self._in("Yes", "Ja") if is_prime(number) else self._in("No", "Nein")

    def parity_of(self, one: Quantity) -> str:
        return self._in("odd", "ungerade") if whole(one) % 2 else self._in("even", "gerade")

    def divide(self, one: Quantity, other: Quantity) -> Quantity:
        if one.is_measure and other.is_measure and other.amount and not one.is_like(other):
            return self._quotient(one, other)
        return one.over(other)

    def remainder(self, one: Quantity, other: Quantity) -> Quantity:
        if other.number == 0:
            raise ImpossibleError("nothing can be divided by zero")
        return Quantity(one.number % other.number)

    def negate(self, one: Quantity) -> Quantity:
        return one.times(-1)

    def absolute(self, one: Quantity) -> Quantity:
        return one.times(-1) if one.amount < 0 else one

    def power(self, base: Quantity, exponent: Quantity) -> Quantity:
        if abs(exponent.number) > _LARGEST_POWER or abs(base.number) > 10**12:
            raise WorkerError("the power is too large")
        if base.number == 0 and exponent.number < 0:
            raise ImpossibleError("nothing can be divided by zero")
        if exponent.number.denominator != 1:
            if base.number < 0:
                raise WorkerError("a negative number has no such power")
            digits = _ROOT.power(_decimal(base.number), _decimal(exponent.number))
            return Quantity(Fraction(digits))
        return Quantity(base.number ** int(exponent.number))

    def _root(self, degree: int, one: Quantity) -> Quantity:
        if one.number < 0:
            raise WorkerError("a negative number has no root here")
        exact = Fraction(*(round(float(part) ** (1 / degree)) for part in one.number.as_integer_ratio()))
        return Quantity(exact) if exact**degree == one.number else self.power(one, Quantity(Fraction(1, degree)))

    def _raised(self, exponent: int, one: Quantity) -> Quantity:
        return self.power(one, Quantity(Fraction(exponent)))

    square, cube = partialmethod(_raised, 2), partialmethod(_raised, 3)
    square_root, cube_root = partialmethod(_root, 2), partialmethod(_root, 3)

    def factorial(self, one: Quantity) -> Quantity:
        if not (one.number.denominator == 1 and 0 <= one.number <= _LARGEST_FACTORIAL):
            raise WorkerError(f"factorials are worked out of whole numbers up to {_LARGEST_FACTORIAL}")
        return Quantity(Fraction(math.factorial(int(one.number))))

    def sum_of(self, *parts: Quantity | Numbers) -> Quantity:
        return reduce(Quantity.plus, _flat(parts))

    def product_of(self, *parts: Quantity | Numbers) -> Quantity:
        return reduce(Quantity.times, _flat(parts))

    def mean_of(self, numbers: Numbers) -> Quantity:
        return self.sum_of(numbers).times(Fraction(1, len(numbers)))

    def common_divisor(self, numbers: Numbers) -> Quantity:
        return Quantity(Fraction(math.gcd(*map(whole, numbers))))

    def common_multiple(self, numbers: Numbers) -> Quantity:
        return Quantity(Fraction(math.lcm(*map(whole, numbers))))

    def percentage(self, part: Quantity, whole: Quantity | None = None) -> Quantity:
        return Quantity((part.over(whole) if whole else part).number * 100, (PERCENT,))

    def percent_change(self, before: Quantity, after: Quantity) -> Quantity:
        return self.percentage(after.plus(before, -1), before)

    def round(self, one: Quantity, decimals: Quantity | Token | None = None) -> Quantity:
        if isinstance(decimals, Token):
            places = int(self._language.value(decimals))
        else:
            places = whole(decimals) if decimals else 0
        if abs(places) > 30:
            raise WorkerError("so many decimals are not shown")
        return Quantity(Fraction(rounded(one.amount, places)), one.units)

    # Stories
    def things(self, *_: Token) -> Any:
        """What is bought or shared is of no account."""
        return Discard

    def discount(self, *parts: Quantity | Token | None) -> Quantity:
        percent, cost = sorted(_quantities(parts), key=lambda part: not part.is_percent)
        if cost.is_percent or percent.amount > 100:
            raise WorkerError("a price and a reduction of at most 100 % are wanted")
        return cost.plus(percent, -1)

    def reduction(self, *parts: Quantity | Token | None) -> Quantity:
        percent, cost = sorted(_quantities(parts), key=lambda part: not part.is_percent)
        return cost.times(percent)

    def total_price(self, *parts: Quantity | Token | None) -> Quantity:
        return self.multiply(*_quantities(parts))

    def share_of_price(self, *parts: Quantity | Token | None) -> Quantity:
        cost, count, *tips = sorted(_quantities(parts), key=lambda part: part.is_percent)
        return self.sum_of(cost, *tips).over(Quantity(count.number))

    def proportion(self, *parts: Quantity | None) -> Quantity:
        count, cost, other = _quantities(parts)
        return cost.times(other.over(count))

    def proportion_turned(self, cost: Quantity, count: Quantity, other: Quantity) -> Quantity:
        return self.proportion(count, cost, other)

    def rate(self, cost: Quantity, unit: Quantity | Token, amount: Quantity) -> Quantity:
        """The cost of an amount, given that of a unit of it."""
        each = self.one(unit) if isinstance(unit, Token) else unit
        return cost.times(amount.over(each))

    def unit_price(self, unit: Quantity | Token, cost: Quantity, amount: Quantity) -> Quantity:
        return self.rate(cost, unit, amount)

    def rate_of(self, amount: Quantity, span: Quantity, unit: Token, each: Token) -> Quantity:
        """How much of an amount falls to a unit of what it is spread over."""
        return self.convert(amount, unit).over(Quantity(span.over(self.one(each)).number))

    def spent(self, *parts: Quantity | Token | None) -> Quantity:
        had, *count, cost = _quantities(parts)
        if had.is_count:
            raise WorkerError("money is wanted, to pay with")
        return had.plus(self.product_of(cost, *count), -1)

    def left(self, given: Quantity) -> Quantity:
        """What a story has come to, if one was told."""
        if not isinstance(self._given[0], Quantity):
            raise WorkerError("there is nothing of which something may be left")
        return given

    def subtract_part(self, one: Quantity, part: Quantity) -> Quantity:
        return one.plus(one.times(part), -1)

    def contents(self, held: Quantity, asked: str, holders: Quantity) -> Quantity:
        """What many hold, given what one does."""
        if not held.unit_of(asked):
            raise WorkerError("something else is asked than what is held")
        return held.times(holders.amount)

    def before_percent(self, cost: Quantity, percent: Quantity) -> Quantity:
        return cost.over(Quantity(1 + percent.number))

    def whole_of(self, part: Quantity, percent: Quantity) -> Quantity:
        return part.over(Quantity(percent.number))

    def travel(self, one: Quantity, other: Quantity) -> Quantity:
        """What two of way, time and speed say of the third."""
        if (one.unit_of("speed") and other.unit_of("length")) or (one.unit_of("time") and other.unit_of("length")):
            one, other = other, one
        if not (one.unit_of("length") and (other.unit_of("time") or other.unit_of("speed"))):
            if {True} != {bool(one.unit_of(kind) or other.unit_of(kind)) for kind in ("speed", "time")}:
                raise WorkerError("a way, a time or a speed is wanted")
            return self.multiply(one, other)
        return self.divide(one, other)

    def shape(self, *parts: Quantity | Token | None) -> Quantity:
        (kind,) = {part.type for part in parts if isinstance(part, Token)}
        sides = _quantities(parts)
        units = next((side.units for side in sides if side.units), ())
        sides = [side if side.units else Quantity(side.amount, units) for side in sides]
        if len(sides) != (3 if kind == "VOLUME" else 2):
            raise WorkerError("the number of sides is another one")
        if kind == "DIAGONAL":
            squares = (side.converted(units).amount ** 2 for side in sides)
            return Quantity(self._root(2, Quantity(sum(squares, Fraction(0)))).amount, units)
        if kind == "PERIMETER":
            return self.sum_of(*sides).times(2)
        return reduce(self.multiply, sides)

    def round_shape(self, *parts: Quantity | Token | None) -> Quantity:
        kinds = {part.type for part in parts if isinstance(part, Token)}
        (side,) = _quantities(parts)
        if "SQUARE" in kinds:
            return side.times(4) if "PERIMETER" in kinds else self.multiply(side, side)
        radius = side.times(Fraction(1, 2)) if "DIAMETER" in kinds else side
        result = radius.times(2) if "PERIMETER" in kinds else self.multiply(radius, radius)
        return replace(result.times(Fraction(math.pi)), is_converted=True)

    def how_often(self, *parts: Quantity | None) -> Quantity:
        small, large = _quantities(parts)
        return Quantity(Fraction(math.floor(large.over(small).number)))

    # Rows of numbers
    def numbers_between(self, *parts: Quantity | Token) -> str:
        tokens = {part.type for part in parts if isinstance(part, Token)}
        *start, end = map(whole, _quantities(parts))
        first, last = start[0] if start else 1, end - ("BELOW" in tokens)
        if abs(last - first) > _MOST_NUMBERS:
            raise ImpossibleError(f"at most {_MOST_NUMBERS} numbers are written")
        step = 1 if first <= last else -1
        kept = (number for number in range(first, last + step, step) if _is_of(tokens, number))
        return ", ".join(map(str, kept)) or self._in("none", "keine")

    def first_numbers(self, how_many: Quantity, kind: Token) -> str:
        if not 0 < whole(how_many) <= _MOST_NUMBERS:
            raise ImpossibleError(f"at most {_MOST_NUMBERS} numbers are written")
        found = [0, 1]
        while kind.type == "FIBONACCI" and len(found) < whole(how_many):
            found.append(found[-1] + found[-2])
        if kind.type == "PRIMES":
            found = list(islice(filter(is_prime, count(2)), whole(how_many)))
        return ", ".join(map(str, found[: whole(how_many)]))

    def multiples(self, count: Quantity, of: Quantity) -> str:
        if not 0 < whole(count) <= _MOST_NUMBERS:
            raise ImpossibleError(f"at most {_MOST_NUMBERS} numbers are written")
        return ", ".join(of.times(factor).shown(self._language.decimal_mark) for factor in range(1, whole(count) + 1))

    def divisors(self, one: Quantity) -> str:
        number = _positive(one)
        small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
        return ", ".join(map(str, sorted({*small, *(number // divisor for divisor in small)})))

    def prime_factors(self, one: Quantity) -> str:
        number, factors, divisor = _positive(one), [], 2
        while divisor * divisor <= number:
            while number % divisor == 0:
                factors.append(divisor)
                number //= divisor
            divisor += 1
        return " × ".join(map(str, [*factors, *([number] if number > 1 else [])])) or "1"

    def chance(self, kind: Token, *limits: Quantity) -> str:
        if kind.type == "HEADS":
            return secrets.choice((self._in("heads", "Kopf"), self._in("tails", "Zahl")))
        first, last = sorted(map(whole, limits)) if limits else (1, 6 if kind.type == "DIE" else 100)
        return str(first + secrets.randbelow(last - first + 1))

    # Conversions
    def converted(self, value: Quantity | str) -> Quantity | str:
        return value

    def convert(self, quantity: Quantity, unit: Token) -> Quantity:
        return quantity.converted(self._language.units(unit))

    def convert_between(self, amount: Quantity, unit: Token, other: Token) -> Quantity:
        return self.convert(self.part(amount, unit), other)

    def convert_to_both(self, quantity: Quantity, one: Token, other: Token) -> str:
        small, large = sorted(map(self._language.units, (one, other)), key=lambda units: units[0].factor)
        whole = quantity.converted(large)
        full = Quantity(Fraction(math.floor(whole.amount)), whole.units)
        rest = whole.plus(full, -1).converted(small)
        return " ".join(part.shown(self._language.decimal_mark) for part in (full, rest) if part.amount or part is full)

    def in_base(self, one: Quantity, base: Token) -> str:
        if base.type == "ROMAN":
            return _roman(whole(one))
        return format(whole(one), "b" if base.type == "BINARY" else "X")

    def from_roman(self, *parts: Token) -> str:
        signs = str(next(part for part in parts if part.type == "ROMAN_NUMBER"))
        worth = [_WORTH[sign] for sign in signs]
        number = sum(-one if one < after else one for one, after in zip(worth, [*worth[1:], 0], strict=True))
        if number >= 4000 or _roman(number) != signs:
            raise ImpossibleError(f"{signs} is no Roman numeral")
        return str(number)

    def from_binary(self, *parts: Token) -> str:
        digits = str(next(part for part in parts if part.type == "NUMBER"))
        if set(digits) - {"0", "1"}:
            raise WorkerError(f"{digits} is no binary number")
        return str(int(digits, 2))


def _flat(parts: tuple[Quantity | Numbers, ...]) -> Numbers:
    return list(chain.from_iterable(part if isinstance(part, list) else [part] for part in parts))


def _quantities(parts: Iterable[Quantity | Token | None]) -> list[Quantity]:
    return [part for part in parts if isinstance(part, Quantity)]


def _positive(one: Quantity) -> int:
    if not 0 < (number := whole(one)) <= _LARGEST_PRIME:
        raise WorkerError("a positive whole number that is not too large is wanted")
    return number


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def _is_of(kinds: set[str], number: int) -> bool:
    if "PRIMES" in kinds:
        return is_prime(number)
    return not (("EVENS" in kinds and number % 2) or ("ODDS" in kinds and number % 2 == 0))


def _roman(number: int) -> str:
    if not 0 < number < 4000:
        raise ImpossibleError("Roman numerals go from 1 to 3999")
    signs = ""
    for value, sign in _ROMAN:
        signs += sign * (number // value)
        number %= value
    return signs


def _decimal(value: Fraction) -> Decimal:
    return _ROOT.divide(Decimal(value.numerator), Decimal(value.denominator))
