"""What the rules for dates mean."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta, weekday
from dateutil.rrule import DAILY, rrule
from lark import Token, v_args

from orchestai.workers.base import ImpossibleError, WorkerError
from orchestai.workers.tools.everyday.quantity import Quantity
from orchestai.workers.tools.everyday.reading import Reading

Yearly = Callable[[int], date]
"""The day of a year."""
Day = date | Yearly
_EDGES = ("STARTS", "ENDS")
_LENGTHS = {"fortnights": ("days", 14), "weeks": ("days", 7), "decades": ("years", 10)}


@v_args(inline=True)
class Dates(Reading):
    _wants_iso = False
    _twelve_hours = False

    @property
    def _today(self) -> date:
        return self._now.date()

    # Days
    def iso_date(self, digits: Token) -> date:
        self._wants_iso = True
        return _day(*map(int, digits.split("-")))

    def dotted_date(self, digits: Token) -> Day:
        day, month, *year = map(int, re.findall(r"\d+", digits))
        return _yearly(month, day, *year)

    def slashed_date(self, digits: Token) -> Day:
        first, second, year = map(int, digits.split("/"))
        if first <= 12 and second <= 12 and first != second:
            raise ImpossibleError(f"{digits} may be two days; write the month as a word")
        return _day(year, *((second, first) if first > 12 else (first, second)))

    def day_month(self, day: Token, month: Token, year: Token | None = None) -> Day:
        number = int(match[0]) if (match := re.match(r"\d+", day)) else int(self._language.value(day))
        return _yearly(self._language.value(month), number, *([int(year)] if year else []))

    def first_of_month(self, month: Token, year: Token) -> date:
        return _day(int(year), self._language.value(month), 1)

    def month_day(self, month: Token, day: Token, year: Token | None = None) -> Day:
        return self.day_month(day, month, year)

    def on_weekday(self, _: Token, day: Day) -> Day:
        return day

    def relative_day(self, word: Token) -> date:
        return self._today + timedelta(days=self._language.value(word))

    def feast(self, name: Token, year: Token | None = None) -> Day:
        rule = str(self._language.value(name))
        if rule.startswith("easter"):
            offset = timedelta(days=int(rule.removeprefix("easter")))
            return self._of_year(lambda year: easter(year) + offset, year)
        if "/" in rule:
            month, which, day = map(int, rule.split("/"))
            nearest = relativedelta(day=1 if which > 0 else 31, weekday=weekday(day, which))
            return self._of_year(lambda year: date(year, month, 1) + nearest, year)
        month, day = map(int, rule.split("-"))
        return _yearly(month, day, *([int(year)] if year else []))

    def relative_year(self, word: Token) -> Token:
        return Token("YEAR", str(self._today.year + self._language.value(word)))

    @staticmethod
    def _of_year(day: Yearly, year: Token | None) -> Day:
        return day(int(year)) if year else day

    def nth_weekday(self, which: Token, day: Token, month: Token, year: Token | None = None) -> Day:
        place, number = self._language.value(which), self._language.value(month)
        nearest = relativedelta(day=1 if place > 0 else 31, weekday=weekday(self._language.value(day), place))
        return self._of_year(lambda year: date(year, number, 1) + nearest, year)

    def which_weekday(self, which: Token, weekday: Token) -> date:
        ahead = (self._language.value(weekday) - self._today.weekday()) % 7
        step = self._language.value(which)
        return self._today + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * step)

    def period(self, *parts: Any) -> relativedelta:
        *amount, word = parts
        name, length = _LENGTHS.get(name := self._language.value(word), (name, 1))
        count = Fraction(amount[0].number if amount else 1) * length
        if count.denominator != 1 or abs(count) > 10**6:
            raise WorkerError("a whole number of days, months or years is wanted")
        return relativedelta(**{name: int(count)})  # type: ignore[arg-type]

    def duration(self, first: relativedelta, *others: relativedelta) -> relativedelta:
        return sum(others, first)

    def later(self, duration: relativedelta, day: Day | None = None) -> date:
        try:
            return (self._next(day) if day else self._today) + duration
        except (OverflowError, ValueError):
            raise ImpossibleError("the calendar does not go so far") from None

    def earlier(self, duration: relativedelta, day: Day | None = None) -> date:
        return self.later(-duration, day)

    def date_it(self, _: Token) -> Day:
        day: Day = self._read(self._it(), "date")
        return day

    # Questions
    def weekday(self, day: Day) -> str:
        return self._weekday(self._next(day))

    def when(self, day: Day) -> str:
        found = self._next(day)
        return found.isoformat() if self._wants_iso else self._long(found)

    def year_length(self, year: Token) -> str:
        return str(365 + calendar.isleap(int(year)))

    def until(self, period: Token, day: Day) -> str:
        end = self._next(day)
        if end < self._today:
            raise WorkerError(f"{end} is past")
        return self._counted(self._today, end, period)

    def since(self, period: Token, day: Day) -> str:
        start = self._last(day)
        if start > self._today:
            raise WorkerError(f"{start} is to come")
        return self._counted(start, self._today, period)

    def between(self, period: Token, one: Day, other: Day) -> str:
        return self._counted(*self._span(one, other), period)

    def _span(self, one: Day, other: Day) -> tuple[date, date]:
        """The days, the earlier one first."""
        if isinstance(other, date) and not isinstance(one, date):
            return _nearest(one, other, -1), other
        start = self._next(one)
        end = other if isinstance(other, date) else _nearest(other, start)
        return min(start, end), max(start, end)

    def working_days(self, _: Token, *days: Day) -> str:
        start, end = self._span(days[0] if len(days) > 1 else self._today, days[-1])
        count = rrule(DAILY, byweekday=range(5), dtstart=start, until=end).count()
        return self._in(
            f"{count} (Monday to Friday, first and last day included; holidays are not taken off)",
            f"{count} (Montag bis Freitag, erster und letzter Tag mitgezählt; Feiertage sind nicht abgezogen)",
        )

    def between_years(self, period: Token, one: Token, other: Token) -> str:
        return self.between(period, date(int(one), 1, 1), date(int(other), 1, 1))

    def left_of_year(self, period: Token) -> str:
        return self._counted(self._today, date(self._today.year, 12, 31), period)

    def age(self, born: Day) -> str:
        years = relativedelta(self._today, self._last(born)).years
        return str(years)

    def age_in(self, born: Token, year: Token) -> str:
        return str(int(year) - int(born))

    def month_length(self, month: Token, year: Token | None = None) -> str:
        number = self._language.value(month)
        if number == 2 and year is None:
            return self._in("28 (29 in a leap year)", "28 (29 in einem Schaltjahr)")
        return str(calendar.monthrange(int(year or self._today.year), number)[1])

    def leap_year(self, year: Token) -> str:
        return self._in("Yes", "Ja") if calendar.isleap(int(year)) else self._in("No", "Nein")

    def day_of_year(self, day: Day) -> str:
        return str(self._next(day).timetuple().tm_yday)

    def week(self, day: Day) -> str:
        return str(self._next(day).isocalendar().week)

    def this_year(self) -> str:
        return str(self._today.year)

    def this_month(self) -> str:
        return self._name("MONTH", self._today.month)

    def this_time(self) -> str:
        return f"{self._now:%H:%M}"

    # The time of day, in minutes
    def clock(self, time: Token) -> int:
        hour, *minutes = map(int, re.findall(r"\d+", time))
        if half := re.search(r"([ap])\.?m", time.lower()):
            if not 0 < hour <= 12:
                raise WorkerError(f"there is no time {time}")
            self._twelve_hours = True
            hour = hour % 12 + (12 if half[1] == "p" else 0)
        return 60 * hour + sum(minutes)

    def elapsed(self, *parts: int | Token | None) -> str:
        start, end = (part for part in parts if isinstance(part, int))
        if [part.type for part in parts if isinstance(part, Token) and part.type in _EDGES][:2] == ["ENDS", "STARTS"]:
            start, end = end, start
        hours, minutes = divmod((end - start) % (24 * 60), 60)
        units = {str(part).lower() for part in parts if isinstance(part, Token)}
        if units & {"minutes", "minuten"}:
            hours, minutes = 0, 60 * hours + minutes
        names = self._in("hour hours minute minutes", "Stunde Stunden Minute Minuten").split()
        shown = [f"{hours} {names[hours != 1]}"] * (hours > 0) + [f"{minutes} {names[2 + (minutes != 1)]}"] * (
            minutes > 0 or not hours
        )
        return self._in(" and ", " und ").join(shown)

    def moved(self, *parts: int | Quantity | Token | None) -> str:
        """The end of what begins and lasts, or the beginning of what ends: of the two, what is named last is asked."""
        edges = [part.type for part in parts if isinstance(part, Token) and part.type in _EDGES]
        if not edges:
            raise WorkerError("neither a beginning nor an end is asked for")
        return self.clock_later(*parts, sign=1 if edges[-1] == "ENDS" else -1)

    def clock_later(self, *parts: int | Quantity | Token | None, sign: int = 1) -> str:
        (start,) = (part for part in parts if isinstance(part, int))
        (span,) = (part for part in parts if isinstance(part, Quantity))
        minutes = span.converted(self._language.units("min")).amount
        if minutes >= 24 * 60:
            raise WorkerError("that is days away")
        hour, minute = divmod(int(start + sign * minutes) % (24 * 60), 60)
        if self._twelve_hours:
            return f"{(hour - 1) % 12 + 1}:{minute:02} {'ap'[hour >= 12]}m"
        return f"{hour}:{minute:02}"

    def clock_earlier(self, *parts: int | Quantity | Token | None) -> str:
        return self.clock_later(*parts, sign=-1)

    def from_now(self, *parts: Quantity | Token | None) -> str:
        return self.clock_later(60 * self._now.hour + self._now.minute, *parts)

    def until_now(self, *parts: Quantity | Token | None) -> str:
        return self.clock_earlier(60 * self._now.hour + self._now.minute, *parts)

    def weekday_later(self, duration: relativedelta, day: Token) -> str:
        if duration.years or duration.months:
            raise WorkerError("the number of days is not known")
        return self._name("WEEKDAY", (self._language.value(day) + duration.days) % 7)

    # How days are found and written
    def _next(self, day: Day) -> date:
        return day if isinstance(day, date) else _nearest(day, self._today)

    def _last(self, day: Day) -> date:
        return day if isinstance(day, date) else _nearest(day, self._today, -1)

    def in_days(self) -> Token:
        return Token("PERIOD", next(iter(self._language.spellings["PERIOD"])))

    def _counted(self, start: date, end: date, period: Token) -> str:
        """Time between two days in full periods and the days that are left."""
        name = self._language.value(period)
        if name in ("days", "weeks", "fortnights"):
            days = (end - start).days
            whole, left = divmod(days, {"days": 1, "weeks": 7, "fortnights": 14}[name])
            return self._joined((whole, name), (left, "days"))
        apart = relativedelta(end, start)
        if name == "months":
            return self._joined((apart.years * 12 + apart.months, "months"), (apart.days, "days"))
        years, rest = divmod(apart.years, 10) if name == "decades" else (apart.years, 0)
        return self._joined((years, name), (rest, "years"), (apart.months, "months"), (apart.days, "days"))

    def _joined(self, first: tuple[int, str], *others: tuple[int, str]) -> str:
        parts = []
        for count, name in (first, *(other for other in others if other[0])):
            singular, plural = [word for word, value in self._language.spellings["PERIOD"].items() if value == name][:2]
            parts.append(f"{count} {singular if count == 1 else plural}")
        return self._in(" and ", " und ").join(filter(None, [", ".join(parts[:-1]), parts[-1]]))

    def _weekday(self, day: date) -> str:
        return self._name("WEEKDAY", day.weekday())

    def _long(self, day: date) -> str:
        month = self._name("MONTH", day.month)
        return f"{self._weekday(day)}, {day.day}{self._in('', '.')} {month} {day.year}"

    def _name(self, terminal: str, value: int) -> str:
        return next(word for word, meaning in self._language.spellings[terminal].items() if meaning == value)


def _day(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise ImpossibleError(f"there is no day {day} of month {month} in {year}") from None


def _yearly(month: int, day: int, year: int | None = None) -> Day:
    if year is not None:
        return _day(year, month, day)
    _day(2000, month, day)
    return lambda year: _day(year, month, day)


def _nearest(day: Yearly, start: date, step: int = 1) -> date:
    """Its first occurrence from a day on, or its last one until then (-1); of 29 February, in years that have it."""
    for year in range(start.year, start.year + 9 * step, step):
        if (month_day := day(2000)).month == 2 and month_day.day == 29 and not calendar.isleap(year):
            continue
        if (found := day(year)) == start or (found > start) == (step > 0):
            return found
    raise ImpossibleError("the calendar does not go so far")
