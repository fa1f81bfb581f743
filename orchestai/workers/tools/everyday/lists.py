"""What the rules for lists mean."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from fractions import Fraction
from statistics import median

from lark import Token, v_args
from lark.exceptions import VisitError

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.arithmetic import Arithmetic
from orchestai.workers.tools.everyday.quantity import Quantity
from orchestai.workers.tools.everyday.reading import ASIDE
from orchestai.workers.tools.everyday.texts import ARTICLE, UNSAID, Texts

Items = list[str]
_SEPARATORS = (r"\n", r";", r",\s+")
_AND = r"\s+(?:and|or|und|oder|&)\s+"
_AND_FIRST = r"^(?:and|or|und|oder|&)\s+"


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
        if len(parts) == 1 and all(map(self._is_number, bare.split())):
            parts = bare.split()
        elif mark == _AND:
            parts = [item for part in parts for item in ([part] if self._is_number(part) else part.split(","))]
        found = [self._unquoted(part) for part in parts if part.strip()]
        if len(found) < 2:
            raise WorkerError(f"{text[:40]!r} is no list")
        return found

    def items_rest(self, text: Token) -> Items:
        return self._items(text[1:].replace(ASIDE, self._aside))

    def items_it(self, _: Token | None = None) -> Items:
        self.used_given = True
        if not self._given:
            raise WorkerError("the words refer to a list, and none is given")
        return self._items(self._given[0]) if len(self._given) == 1 else [given.strip() for given in self._given]

    # What is done with them
    def sort(self, items: Items | Token | None = None, order: Items | Token | None = None) -> str:
        if isinstance(items, Token):
            items, order = order, items
        chosen = self.items_it() if items is None else items
        assert isinstance(chosen, list)
        kind = order.type if isinstance(order, Token) else "ASCENDING"
        if kind == "BY_LENGTH":
            return ", ".join(sorted(chosen, key=len))
        if kind != "ALPHABETIC" and self._are_quantities(chosen):
            chosen = [item for _, item in sorted(zip(self._amounts(chosen), chosen, strict=True))]
        else:
            chosen = sorted(chosen, key=_collated)
        return ", ".join(reversed(chosen) if kind == "DESCENDING" else chosen)

    def reverse_list(self, items: Items) -> str:
        return ", ".join(reversed(items))

    def unique(self, items: Items | None = None) -> str:
        return ", ".join(dict.fromkeys(self.items_it() if items is None else items))

    def nth(self, ordinal: Token, items: Items | None = None) -> str:
        place = self._language.value(ordinal)
        items = self.items_it() if items is None else items
        if not -len(items) <= place <= len(items):
            raise WorkerError(f"the list has only {len(items)} items")
        return items[place - (place > 0)]

    def measure(self, statistic: Token, items: Items | None = None) -> str:
        chosen = self.items_it() if items is None else items
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

    def parity(self, which: Token, items: Items) -> str:
        odd = which.type == "ODD"
        amounts = self._amounts(items)
        return ", ".join(item for item, amount in zip(items, amounts, strict=True) if amount % 2 == odd)

    def join(self, items: Items, piece: str) -> str:
        return piece.join(items)

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
