"""Dates and measures in text: found in several formats, compared, converted and written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)"
    rf"|(?:the )?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH}),? (?P<y2>\d{{4}})"
    rf"|(?P<m3>{_MONTH}) (?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y3>\d{{4}})"
)

_UNITS: dict[str, tuple[str, float, tuple[str, ...]]] = {
    "m": ("length", 1.0, ("metre", "metres", "meter", "meters")),
    "km": ("length", 1000.0, ("kilometre", "kilometres", "kilometer", "kilometers")),
    "ft": ("length", 0.3048, ("foot", "feet")),
    "mi": ("length", 1609.344, ("mile", "miles")),
    "t": ("mass", 1000.0, ("tonne", "tonnes")),
    "kg": ("mass", 1.0, ("kilogram", "kilograms")),
    "lb": ("mass", 0.45359237, ("pound", "pounds")),
    "days": ("time", 1.0, ("day",)),
    "years": ("years", 1.0, ("year",)),
}
"""Symbol -> dimension, size in the dimension's base unit, and further names (international yard and pound, 1959)."""
_SYMBOLS = {name: symbol for symbol, (_, _, names) in _UNITS.items() for name in (symbol, *names)}
_UNIT = "|".join(sorted(_SYMBOLS, key=len, reverse=True))
_QUANTITY = re.compile(rf"(?<![\w.,-])(\d{{1,3}}(?:,\d{{3}})+|\d+)(\.\d+)?(?:[ -]?({_UNIT})\b)?(?![\w-])")
_UNIT_NAMED = re.compile(rf"\b(?:in|many) ({'|'.join(unit for unit in _SYMBOLS if len(unit) > 2)})\b")


@dataclass(frozen=True)
class Quantity:
    """A number with the symbol of its unit; a bare count has none."""

    value: float
    unit: str = ""

    @property
    def dimension(self) -> str:
        return _UNITS[self.unit][0] if self.unit else ""

    @property
    def in_base(self) -> float:
        """The value in the base unit of its dimension."""
        return self.value * _UNITS[self.unit][1] if self.unit else self.value

    def to(self, unit: str) -> Quantity:
        """The same in another unit; raises `ValueError` where that measures something else."""
        if not self.unit or not unit or _UNITS[unit][0] != self.dimension:
            raise ValueError(f"{self} cannot be expressed in {unit or 'no unit'}")
        return Quantity(self.in_base / _UNITS[unit][1], unit)

    def __str__(self) -> str:
        number = f"{self.value:,.1f}".removesuffix(".0")
        return f"{number} {self.unit}".strip()


def quantities(text: str) -> list[Quantity]:
    """Every number in the text with its unit, in order; numbers that are part of a date are not counted."""
    rest = _DATE.sub(lambda match: " " * len(match[0]), text)
    return [
        Quantity(float(match[1].replace(",", "") + (match[2] or "")), _SYMBOLS[match[3]] if match[3] else "")
        for match in _QUANTITY.finditer(rest)
    ]


def dates(text: str) -> list[date]:
    """Every full date in the text, in order; what is no day of the calendar is left out."""
    return [day for match in _DATE.finditer(text) if (day := _day(match)) is not None]


def date_spans(text: str) -> list[tuple[int, int]]:
    """[start, end) offsets of the dates in the text."""
    return [match.span() for match in _DATE.finditer(text)]


def quantity_spans(text: str) -> list[tuple[int, int]]:
    """[start, end) offsets of the numbers with their units, without those inside dates."""
    rest = _DATE.sub(lambda match: " " * len(match[0]), text)
    return [match.span() for match in _QUANTITY.finditer(rest)]


def unit_in(text: str) -> str:
    """Symbol of the unit of length or mass that the words ask for ("in feet"); empty where they ask for none."""
    found = [symbol for word in _UNIT_NAMED.findall(text) if _UNITS[symbol := _SYMBOLS[word]][0] in ("length", "mass")]
    return found[0] if found else ""


def whole_years(first: date, second: date) -> int:
    """Full years from the earlier to the later of two days."""
    first, second = min(first, second), max(first, second)
    return second.year - first.year - ((second.month, second.day) < (first.month, first.day))


def _day(match: re.Match[str]) -> date | None:
    year, month, day = (match[name] or match[name + "2"] or match[name + "3"] for name in "ymd")
    try:
        return date(int(year), int(month) if month.isdigit() else MONTHS.index(month) + 1, int(day))
    except ValueError:
        return None
