"""Days and the time of day among what the rules mean, and with them the whole."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta, weekday
from dateutil.rrule import DAILY, rrule
from lark import Token, v_args

from orchestai.workers.base import ImpossibleError, WorkerError
from orchestai.workers.tools.everyday.language import Quantity
from orchestai.workers.tools.everyday.meaning import (
    Day,
    Yearly,
    day_of,
    first_of,
    nearest,
)
from orchestai.workers.tools.everyday.reading import Reading, all_of

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


@v_args(inline=True)
class Evaluator(Reading):
    """Gives the value of a reading."""

    _wants_iso = False
    _twelve_hours = False

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

    def nth_weekday(self, which: Token, day: Token, month: Token, *year: Token) -> Day:
        found = _weekday_of(*(self.language.value(word) for word in (month, which, day)))
        return found(int(year[0])) if year else found

    def which_weekday(self, which: Token, weekday: Token) -> date:
        ahead = (self.language.value(weekday) - self.now.weekday()) % 7
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

    def working_days(self, _: Token, *days: Day) -> str:
        start, end = self.span(days[0] if len(days) > 1 else self.now.date(), days[-1])
        return f"{rrule(DAILY, byweekday=range(5), dtstart=start, until=end).count()} {self.say('working_days')}"

    def month_length(self, month: Token, *year: Token) -> str:
        number = self.language.value(month)
        if number == 2 and not year:
            return self.say("february")
        return str(calendar.monthrange(int(year[0]) if year else self.now.year, number)[1])

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

    # The time of day, in minutes
    def clock(self, time: Token) -> int:
        hour, *minutes = map(int, re.findall(r"\d+", time))
        if half := re.search(r"([ap])\.?m", time.lower()):
            if not 0 < hour <= 12:
                raise WorkerError(f"there is no time {time}")
            self._twelve_hours = True
            hour = hour % 12 + (12 if half[1] == "p" else 0)
        return 60 * hour + sum(minutes)

    def elapsed(self, *parts: int | Token) -> str:
        start, end = all_of(parts, int)
        tokens = all_of(parts, Token)
        if [token.type for token in tokens if token.type in ("STARTS", "ENDS")][:2] == ["ENDS", "STARTS"]:
            start, end = end, start
        hours, minutes = divmod((end - start) % (24 * 60), 60)
        if {"minutes", "minuten"} & {str(token).lower() for token in tokens}:
            hours, minutes = 0, 60 * hours + minutes
        counts = (
            {"hour": hours, "minute": minutes}
            if hours and minutes
            else {"hour": hours}
            if hours
            else {"minute": minutes}
        )
        return self.say("and").join(f"{n} {self.language.says[name][n != 1]}" for name, n in counts.items())

    def moved(self, *parts: int | Quantity | Token) -> str:
        """The end of what begins and lasts, or the beginning of what ends: of the two, what is named last is asked."""
        edges = [part.type for part in all_of(parts, Token) if part.type in ("STARTS", "ENDS")]
        if not edges:
            raise WorkerError("neither a beginning nor an end is asked for")
        return self.clock_later(*parts, sign=1 if edges[-1] == "ENDS" else -1)

    def clock_later(self, *parts: int | Quantity | Token, sign: int = 1) -> str:
        minutes = first_of(parts, Quantity).converted(self.language.units("min")).amount
        if minutes >= 24 * 60:
            raise WorkerError("that is days away")
        hour, minute = divmod(int(first_of(parts, int) + sign * minutes) % (24 * 60), 60)
        if self._twelve_hours:
            return f"{(hour - 1) % 12 + 1}:{minute:02} {'ap'[hour >= 12]}m"
        return f"{hour}:{minute:02}"

    def weekday_later(self, duration: relativedelta, day: Token) -> str:
        if duration.years or duration.months:
            raise WorkerError("the number of days is not known")
        return self.language.name("WEEKDAY", (self.language.value(day) + duration.days) % 7)
