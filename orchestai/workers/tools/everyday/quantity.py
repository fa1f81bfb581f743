"""Exact numbers, with or without a unit of measure, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from orchestai.workers.base import ImpossibleError, WorkerError
from orchestai.workers.tools.everyday.language import MONEY, Unit

PERCENT = Unit("%", "percent", Fraction(1, 100), Fraction(0), "%", "%")
_BEFORE = "€$£¥"
"""Signs that English writes before the amount."""
_OF_THE_US = {"gal", "qt", "pt", "cup", "fl oz", "tbsp", "tsp"}
_MOST_BITS = 20_000
_EXACT_DECIMALS = 12
_ROUNDED_DIGITS = 10
_CONVERTED_DIGITS = 6


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
        return bool(self.units) and self.units[0].dimension in MONEY

    @property
    def is_count(self) -> bool:
        """Whether it says how many things there are."""
        return bool(self.units) and not self.units[0].symbol

    @property
    def is_measure(self) -> bool:
        return bool(self.units) and not self.is_percent

    def unit_of(self, dimension: str) -> Unit | None:
        """What its name means in this dimension."""
        return next((unit for unit in self.units if unit.dimension == dimension), None)

    def is_like(self, other: Quantity) -> bool:
        return any(other.unit_of(unit.dimension) for unit in self.units)

    @property
    def number(self) -> Fraction:
        """The value of a number or a per cent.

        Raises:
            WorkerError: it has a unit.
        """
        if self.is_percent:
            return self.amount / 100
        if self.units:
            raise WorkerError(f"a number is wanted, not {self.units[0].label}")
        return self.amount

    def converted(self, units: tuple[Unit, ...]) -> Quantity:
        """The same in the first of these units that is of its dimension.

        Raises:
            WorkerError: there is none.
        """
        for unit in units:
            for own in self.units:
                if own.dimension == unit.dimension:
                    amount = own.factor * (self.amount + own.offset) / unit.factor - unit.offset
                    system = "US" if {own.symbol, unit.symbol} & _OF_THE_US and own != unit else ""
                    return Quantity(amount, (unit,), is_converted=True, system=system)
        if self.is_money and units[0].dimension in MONEY:
            raise ImpossibleError("exchange rates change, and no worker here knows today's")
        raise WorkerError(f"{self.units[0].label if self.units else 'a number'} cannot be given in {units[0].label}")

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        """The sum in this unit, or, with the sign -1, the difference.

        A per cent is added to what it is of, and a bare number to money as money.
        """
        if other.is_percent and not self.is_percent:
            return replace(self, amount=self.amount * (1 + sign * other.number))
        if not self.units and (other.is_money or other.is_count):
            self = replace(self, units=other.units)
        if not other.units and (self.is_money or self.is_percent or self.is_count):
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
        if self.is_money:
            digits = f"{rounded(self.amount, 2):.2f}".removesuffix(".00")
        else:
            digits = _digits(self.amount, _CONVERTED_DIGITS if self.is_converted else _ROUNDED_DIGITS)
        digits = digits.replace(".", decimal_mark)
        if not self.units or self.is_count:
            return digits
        if decimal_mark == "." and self.units[0].label in _BEFORE:
            return f"{'-' if self.amount < 0 else ''}{self.units[0].label}{digits.removeprefix('-')}"
        label = self.units[0].singular if abs(self.amount) == 1 else self.units[0].label
        return f"{digits}{'' if label in '%°' else ' '}{label}" + (f" ({self.system})" if self.system else "")


def whole(one: Quantity) -> int:
    """The number; raises `WorkerError` where it has a fraction or a unit."""
    if one.number.denominator != 1:
        raise WorkerError("a whole number is wanted")
    return int(one.number)


def shown(value: object, decimal_mark: str) -> str:
    """A value as a text."""
    return value.shown(decimal_mark) if isinstance(value, Quantity) else str(value)


def rounded(value: Fraction, decimals: int) -> Decimal:
    """The nearest number of so many decimals, halves away from zero; below 0, of tens, hundreds and so on."""
    scaled = abs(value) * Fraction(10) ** decimals
    whole = int(scaled + Fraction(1, 2))
    return Decimal(whole if value >= 0 else -whole).scaleb(-decimals, Context(prec=_MOST_BITS))


def _digits(value: Fraction, digits: int) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    decimals = next((n for n in range(1, _EXACT_DECIMALS + 1) if (10**n) % value.denominator == 0), None)
    if decimals is None or (digits == _CONVERTED_DIGITS and decimals > digits):
        nearest = Context(prec=digits, rounding=ROUND_HALF_UP)
        magnitude = nearest.divide(Decimal(value.numerator), Decimal(value.denominator)).adjusted()
        decimals = max(digits - magnitude - 1, 2 if abs(value) >= 1 else 0)
    number = f"{rounded(value, decimals):f}"
    return number.rstrip("0").rstrip(".") if "." in number else number
