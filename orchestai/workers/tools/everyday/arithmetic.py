"""What the rules for numbers, quantities and calculations mean."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Context, Decimal
from fractions import Fraction
from itertools import chain

from lark import Token, v_args
from text_to_num import text2num

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.quantity import PERCENT, Quantity, rounded
from orchestai.workers.tools.everyday.reading import Reading

_ROOT = Context(prec=40)
_LARGEST_FACTORIAL = 500
_LARGEST_POWER = 2000
_LARGEST_PRIME = 10**12

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

    def shares(self, count: Quantity, word: Token) -> Quantity:
        return count.times(1 / Fraction(self._language.value(word)))

    def mixed(self, whole: Quantity, fraction: Quantity) -> Quantity:
        return whole.plus(fraction)

    def mixed_digits(self, whole: Quantity, digits: Token) -> Quantity:
        return whole.plus(self.fraction(digits))

    def mixed_vulgar(self, whole: Quantity, sign: Token) -> Quantity:
        return whole.plus(self.vulgar(sign))

    def percent(self, amount: Quantity) -> Quantity:
        return Quantity(amount.number, (PERCENT,))

    def part(self, amount: Quantity, unit: Token) -> Quantity:
        return Quantity(amount.number, self._language.units(unit))

    def fraction_part(self, digits: Token, unit: Token) -> Quantity:
        return self.part(self.fraction(digits), unit)

    def multiple_part(self, word: Token, unit: Token) -> Quantity:
        return self.part(self.lexical(word), unit)

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

    def it_as_number(self, _: Token) -> Quantity:
        return self.given()

    def given(self) -> Quantity:
        quantity: Quantity = self._read(self._it(), "sum")
        return quantity

    def series(self, *parts: Quantity) -> Numbers:
        return list(parts)

    def series_it(self, _: Token) -> Numbers:
        self.used_given = True
        return [self._read(text, "sum") for given in self._given for text in re.split(r"[;\n]|, ", given)]

    # Calculations
    def add(self, one: Quantity, other: Quantity) -> Quantity:
        return one.plus(other)

    def subtract(self, one: Quantity, other: Quantity) -> Quantity:
        return one.plus(other, -1)

    def distance(self, one: Quantity, other: Quantity) -> Quantity:
        return self.absolute(one.plus(other, -1))

    def multiply(self, one: Quantity, other: Quantity) -> Quantity:
        return one.times(other)

    def is_prime(self, one: Quantity) -> str:
        number = _whole(one)
        if number > _LARGEST_PRIME:
            raise WorkerError("the number is too large")
        prime = number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
        return self._in("Yes", "Ja") if prime else self._in("No", "Nein")

    def parity_of(self, one: Quantity) -> str:
        return self._in("odd", "ungerade") if _whole(one) % 2 else self._in("even", "gerade")

    def divide(self, one: Quantity, other: Quantity) -> Quantity:
        return one.over(other)

    def remainder(self, one: Quantity, other: Quantity) -> Quantity:
        if other.number == 0:
            raise WorkerError("nothing can be divided by zero")
        return Quantity(one.number % other.number)

    def negate(self, one: Quantity) -> Quantity:
        return one.times(-1)

    def absolute(self, one: Quantity) -> Quantity:
        return one.times(-1) if one.amount < 0 else one

    def square(self, one: Quantity) -> Quantity:
        return self.power(one, Quantity(Fraction(2)))

    def cube(self, one: Quantity) -> Quantity:
        return self.power(one, Quantity(Fraction(3)))

    def power(self, base: Quantity, exponent: Quantity) -> Quantity:
        if abs(exponent.number) > _LARGEST_POWER or abs(base.number) > 10**12:
            raise WorkerError("the power is too large")
        if base.number == 0 and exponent.number < 0:
            raise WorkerError("nothing can be divided by zero")
        if exponent.number.denominator != 1:
            if base.number < 0:
                raise WorkerError("a negative number has no such power")
            digits = _ROOT.power(_decimal(base.number), _decimal(exponent.number))
            return Quantity(Fraction(digits))
        return Quantity(base.number ** int(exponent.number))

    def square_root(self, one: Quantity) -> Quantity:
        return self._root(one, 2)

    def cube_root(self, one: Quantity) -> Quantity:
        return self._root(one, 3)

    def _root(self, one: Quantity, degree: int) -> Quantity:
        if one.number < 0:
            raise WorkerError("a negative number has no root here")
        exact = Fraction(*(round(float(part) ** (1 / degree)) for part in one.number.as_integer_ratio()))
        return Quantity(exact) if exact**degree == one.number else self.power(one, Quantity(Fraction(1, degree)))

    def factorial(self, one: Quantity) -> Quantity:
        if not (one.number.denominator == 1 and 0 <= one.number <= _LARGEST_FACTORIAL):
            raise WorkerError(f"factorials are worked out of whole numbers up to {_LARGEST_FACTORIAL}")
        return Quantity(Fraction(math.factorial(int(one.number))))

    def sum_of(self, *parts: Quantity | Numbers) -> Quantity:
        first, *others = _flat(parts)
        for other in others:
            first = first.plus(other)
        return first

    def product_of(self, *parts: Quantity | Numbers) -> Quantity:
        first, *others = _flat(parts)
        for other in others:
            first = first.times(other)
        return first

    def mean_of(self, numbers: Numbers) -> Quantity:
        return self.sum_of(numbers).times(Fraction(1, len(numbers)))

    def common_divisor(self, numbers: Numbers) -> Quantity:
        return Quantity(Fraction(math.gcd(*map(_whole, numbers))))

    def common_multiple(self, numbers: Numbers) -> Quantity:
        return Quantity(Fraction(math.lcm(*map(_whole, numbers))))

    def percentage(self, part: Quantity, whole: Quantity) -> Quantity:
        return Quantity(part.over(whole).number * 100, (PERCENT,))

    def percent_change(self, before: Quantity, after: Quantity) -> Quantity:
        return self.percentage(after.plus(before, -1), before)

    def round(self, one: Quantity, decimals: Quantity | Token | None = None) -> Quantity:
        if isinstance(decimals, Token):
            places = int(self._language.value(decimals))
        else:
            places = _whole(decimals) if decimals else 0
        if abs(places) > 30:
            raise WorkerError("so many decimals are not shown")
        return Quantity(Fraction(rounded(one.amount, places)), one.units)

    # Conversions
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
        return format(_whole(one), "b" if base.type == "BINARY" else "X")


def _flat(parts: tuple[Quantity | Numbers, ...]) -> Numbers:
    return list(chain.from_iterable(part if isinstance(part, list) else [part] for part in parts))


def _whole(one: Quantity) -> int:
    if one.number.denominator != 1:
        raise WorkerError("a whole number is wanted")
    return int(one.number)


def _decimal(value: Fraction) -> Decimal:
    return _ROOT.divide(Decimal(value.numerator), Decimal(value.denominator))
