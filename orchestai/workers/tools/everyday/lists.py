"""What the rules for lists mean."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partialmethod
from statistics import median

from lark import Token, v_args
from lark.exceptions import VisitError

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.arithmetic import Arithmetic, is_prime
from orchestai.workers.tools.everyday.quantity import Quantity, shown, whole
from orchestai.workers.tools.everyday.reading import ASIDE
from orchestai.workers.tools.everyday.texts import ARTICLE, CONDITION, UNSAID, Texts

Items = list[str]
Filter = Callable[[str], bool]
_NUMBERS: dict[str, Callable[[Quantity], bool]] = {
    "EVEN": lambda one: one.number % 2 == 0,
    "ODD": lambda one: one.number % 2 == 1,
    "PRIME": lambda one: is_prime(whole(one)),
    "POSITIVE": lambda one: one.amount > 0,
    "NEGATIVE": lambda one: one.amount < 0,
}
_SEPARATORS = (r"\n", r";", r",\s+")
_AND = r"\s+(?:and|or|und|oder|&)\s+"
_AND_FIRST = r"^(?:and|or|und|oder|&)\s+"
_FURTHER_STEP = re.compile(
    r"(?i)(?:then |dann )?(?:show|count|sort|reverse|find|give|take|add|join|remove|print|tell|return|pick|keep|zeige?|"
    r"zähle?|sortiere?|nimm|gib|finde|entferne|addiere) (?:the|it|them|me|only|how|up|die|das|den|sie|es|mir|nur|wie)\b"
)


@v_args(inline=True)
class Lists(Arithmetic, Texts):
    def items(self, *words: Token) -> Items:
        """The list that stands among the words of the request."""
        items = self._items(self._words[words[0].start_pos : words[-1].end_pos])
        if ARTICLE.search(self._words[: words[0].start_pos]) or any(
            UNSAID.match(item) or item.count(" ") > 1 for item in items if not self._is_number(item)
        ):
            raise WorkerError("the items are spoken of, and no list to work on")
        return items

    def _items(self, text: str) -> Items:
        """The items of a list in words: between commas, semicolons or line breaks, or numbers in a row."""
        bare = re.fullmatch(r"(?s)[\[({]?\s*(.*?)\s*[\])}]?\s*[.?!]?", text.strip())[1]  # type: ignore[index]
        mark = next((mark for mark in _SEPARATORS if re.search(mark, bare)), _AND)
        *parts, last = re.split(mark, bare)
        parts += re.split(_AND, re.sub(_AND_FIRST, "", last.strip()), maxsplit=1)
        if any(map(_FURTHER_STEP.match, parts)):
            raise WorkerError("what stands among the items is a further step")
        if len(parts) == 1 and all(map(self._is_number, bare.split())):
            parts = bare.split()
        elif mark == _AND:
            parts = [item for part in parts for item in ([part] if self._is_number(part) else part.split(","))]
        found = [self._unquoted(part) for part in parts if part.strip()]
        if len(found) < 2 or CONDITION.search(text):
            raise WorkerError(f"{text[:40]!r} is no list")
        return found

    def items_rest(self, text: Token) -> Items:
        return self._items(text[1:].replace(ASIDE, self._aside))

    def items_it(self, _: Token | None = None) -> Items:
        self.used_given = True
        if not self._given:
            raise WorkerError("the words refer to a list, and none is given")
        return self._items(self._texts()[0]) if len(self._given) == 1 else self._texts()

    # What is done with them
    def sort(self, items: Items | Token | None = None, order: Items | Token | None = None) -> str:
        if isinstance(items, Token):
            items, order = order, items
        chosen = self.items_it() if items is None else items
        assert isinstance(chosen, list)
        kind = order.type if isinstance(order, Token) else "ASCENDING"
        if kind.startswith("BY_LENGTH"):
            return ", ".join(sorted(chosen, key=len, reverse=kind.endswith("DOWN")))
        if kind != "ALPHABETIC" and self._are_quantities(chosen):
            chosen = [item for _, item in sorted(zip(self._amounts(chosen), chosen, strict=True))]
        else:
            chosen = sorted(chosen, key=_collated)
        return ", ".join(reversed(chosen) if kind == "DESCENDING" else chosen)

    def reverse_list(self, items: Items) -> str:
        return ", ".join(reversed(items))

    def unique(self, items: Items | None = None) -> str:
        return ", ".join(dict.fromkeys(self.items_it() if items is None else items))

    def repeated(self, items: Items) -> str:
        return ", ".join(item for item, count in Counter(items).items() if count > 1) or self._in("none", "keine")

    def nth(self, ordinal: Token, items: Items | None = None) -> str:
        place = self._language.value(ordinal)
        items = self.items_it() if items is None else items
        if not -len(items) <= place <= len(items):
            raise WorkerError(f"the list has only {len(items)} items")
        return items[place - (place > 0)]

    def several(self, which: Token, count: Quantity, items: Items | None = None) -> str:
        chosen = self.items_it() if items is None else items
        place = self._language.value(which) if which.type == "ORDINAL" else 1
        if which.type != "ORDINAL":
            amounts = zip(self._amounts(chosen), chosen, strict=True)
            chosen = [item for _, item in sorted(amounts, reverse=which.type == "MAXIMUM")]
        if count.number.denominator != 1 or not 0 < count.number <= len(chosen) or place not in (1, -1):
            raise WorkerError(f"the list has only {len(chosen)} items")
        return ", ".join(chosen[: int(count.number)] if place == 1 else chosen[-int(count.number) :])

    def several_turned(self, count: Quantity, which: Token, items: Items | None = None) -> str:
        return self.several(which, count, items)

    def measure(self, statistic: Token, items: Items | None = None) -> str:
        chosen = self.items_it() if items is None else items
        if not chosen:
            return self._in("none", "keine")
        kind = statistic.type
        if kind in ("LONGEST", "SHORTEST"):
            return (max if kind == "LONGEST" else min)(chosen, key=len)
        if kind == "COUNT":
            return str(len(chosen))
        if kind == "DISTINCT":
            return str(len(set(chosen)))
        if kind == "MODE":
            (best, count), *others = Counter(chosen).most_common()
            if count == 1 or (others and others[0][1] == count):
                raise WorkerError("no item is the most frequent")
            return best
        if kind == "FIRST":
            return min(chosen, key=_collated)
        numbers = self._quantities(chosen)
        if kind in ("MAXIMUM", "MINIMUM"):
            return (max if kind == "MAXIMUM" else min)(zip(self._amounts(chosen), chosen, strict=True))[1]
        result = {
            "TOTAL": lambda: self.sum_of(numbers),
            "PRODUCT": lambda: self.product_of(numbers),
            "MEAN": lambda: self.mean_of(numbers),
            "MEDIAN": lambda: Quantity(median(number.number for number in numbers)),
            "SPREAD": lambda: Quantity(max(self._amounts(chosen)) - min(self._amounts(chosen)), numbers[0].units),
        }[kind]()
        return result.shown(self._language.decimal_mark)

    def measure_both(self, one: Token, other: Token, items: Items | None = None) -> str:
        return self._in(" and ", " und ").join(self.measure(statistic, items) for statistic in (one, other))

    def measure_several(self, statistic: Token, which: Token, count: Quantity, items: Items | None = None) -> str:
        return self.measure(statistic, self._items(self.several(which, count, items)))

    def ranked(self, place: Token, which: Token, items: Items | None = None) -> str:
        return self._ranked(self._language.value(place) * (1 if which.type == "MAXIMUM" else -1), items)

    def ranked_word(self, which: Token, items: Items | None = None) -> str:
        return self._ranked(self._language.value(which), items)

    def _ranked(self, place: int, items: Items | None) -> str:
        """The item of the place among the largest, or from the smallest on where it is negative."""
        chosen = self.items_it() if items is None else items
        amounts = sorted(dict(zip(self._amounts(chosen), chosen, strict=True)).items(), reverse=True)
        if not 0 < abs(place) <= len(amounts):
            raise WorkerError(f"the list has only {len(amounts)} different items")
        return amounts[place - (place > 0)][1]

    # Which items are meant
    def limit(self, which: Token, number: Quantity) -> Filter:
        sign = 1 if which.type == "BIGGER" else -1
        return lambda item: sign * self._quantities([item])[0].amount > sign * number.number

    def sort_of_number(self, which: Token) -> Filter:
        return lambda item: _NUMBERS[which.type](self._quantities([item])[0])

    def divisible(self, number: Quantity) -> Filter:
        return lambda item: self.remainder(self._quantities([item])[0], number).amount == 0

    def beginning(self, letter: Token) -> Filter:
        return lambda item: item.lower().startswith(self.piece(letter).lower())

    def ending(self, letter: Token) -> Filter:
        return lambda item: item.lower().endswith(self.piece(letter).lower())

    def containing(self, letter: Token) -> Filter:
        return lambda item: self.piece(letter).lower() in item.lower()

    def longer(self, which: Token, number: Quantity) -> Filter:
        sign = 1 if which.type == "LONGER" else -1
        return lambda item: sign * len(item) > sign * number.number

    def _kept(self, keep: Filter, items: Items | None) -> Items:
        return [item for item in (self.items_it() if items is None else items) if keep(item)]

    def kept(self, keep: Filter, items: Items | None = None) -> str:
        return ", ".join(self._kept(keep, items)) or self._in("none", "keine")

    def dropped(self, drop: Filter, items: Items | None = None) -> str:
        return self.kept(lambda item: not drop(item), items)

    def kept_count(self, *parts: Items | Filter | Token) -> str:
        (keep,) = (part for part in parts if callable(part))
        return str(len(self._kept(keep, next((part for part in parts if isinstance(part, list)), None))))

    def kept_measure(self, statistic: Token, keep: Filter, items: Items | None = None) -> str:
        return self.measure(statistic, self._kept(keep, items))

    def _each(self, change: Callable[..., Quantity], *parts: Items | Quantity) -> str:
        by = [part for part in parts if isinstance(part, Quantity)]
        items = next((part for part in parts if isinstance(part, list)), None)
        numbers = self._quantities(self.items_it() if items is None else items)
        return ", ".join(shown(change(one, *by), self._language.decimal_mark) for one in numbers)

    each_times = partialmethod(_each, Quantity.times)
    each_over = partialmethod(_each, Quantity.over)
    each_plus = partialmethod(_each, Quantity.plus)
    each_minus = partialmethod(_each, lambda one, other: one.plus(other, -1))
    each_square = partialmethod(_each, lambda one: one.times(one.number))

    def join(self, items: Items | str, piece: str | None = None) -> str:
        return items.join(self.items_it()) if isinstance(items, str) else str(piece).join(items)

    def joined(self, items: Items | None = None) -> str:
        return " ".join(self.items_it() if items is None else items)

    @staticmethod
    def _unquoted(item: str) -> str:
        return re.sub(r"^(['\"“„«»‚‘`])(.*)(['\"”“»«‘’`])$", r"\2", item.strip())

    def _quantities(self, items: Items) -> list[Quantity]:
        return [
            Quantity(self._language.number(item)) if self._is_number(item) else self._read(item, "sum")
            for item in items
        ]

    def _amounts(self, items: Items) -> list[Fraction]:
        """Of quantities, in the unit of the first."""
        first, *others = self._quantities(items)
        return [first.amount, *(first.plus(other).amount - first.amount for other in others)]

    def _are_quantities(self, items: Items) -> bool:
        try:
            return bool(self._amounts(items))
        except (WorkerError, VisitError):
            return False

    def _is_number(self, item: str) -> bool:
        try:
            self._language.number(item.strip())
        except ValueError:
            return False
        return True


def _collated(item: str) -> tuple[str, str]:
    """Key for an order in which accents and capitals count last."""
    bare = "".join(sign for sign in unicodedata.normalize("NFD", item.casefold()) if not unicodedata.combining(sign))
    return bare, item
