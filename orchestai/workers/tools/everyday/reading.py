"""What the rules of the grammars mean that take more than an expression: methods of the same name."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from importlib.metadata import version
from itertools import count, islice
from statistics import median
from typing import Any

from lark import Token, Transformer, Tree, v_args
from lark.exceptions import VisitError
from text_to_num import text2num

from orchestai.workers.base import ImpossibleError, WorkerCard, WorkerError
from orchestai.workers.tools.everyday.language import Language, Quantity, rounded
from orchestai.workers.tools.everyday.meaning import (
    ASIDE,
    CHANGES,
    LARGEST_FACTORIAL,
    LARGEST_POWER,
    MEANINGS,
    MOST_NUMBERS,
    PIECES,
    QUOTED,
    ROMAN,
    SORTS_OF_NUMBER,
    STORIES,
    at_most,
    first_of,
    is_prime,
    nth_of,
    number_of,
    pieces_of,
    roman,
    shown,
    total,
)

Items = list[str]
Filter = Callable[[str], bool]
_ROOT = Context(prec=40)
_MOST_PLAIN, _LONGEST = 5, 20_000
_PRODUCTS = {
    ("length", "length"): "area",
    ("area", "length"): "volume",
    ("speed", "time"): "length",
    ("power", "time"): "energy",
}
_USUAL = {"area": "m²", "volume": "m³", "length": "km", "speed": "km/h", "time": "h", "energy": "kWh", "power": "W"}
_LITERS = {"volume": 1000}
"""Of a volume's first unit in the product of the first units."""
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


def _mean(numbers: list[Quantity]) -> Quantity:
    return total(numbers).times(Fraction(1, len(numbers)))


def _collated(item: str) -> tuple[str, str]:
    """Key for an order in which accents and capitals count last."""
    return "".join(
        sign for sign in unicodedata.normalize("NFD", item.casefold()) if not unicodedata.combining(sign)
    ), item


_STATISTICS: dict[str, Callable[[list[Quantity]], Quantity]] = {
    "TOTAL": total,
    "PRODUCT": lambda numbers: reduce(Quantity.times, numbers),
    "MEAN": _mean,
    "MEDIAN": lambda numbers: Quantity(median(number.number for number in numbers)),
    "SPREAD": lambda numbers: Quantity(max(_amounts(numbers)) - min(_amounts(numbers)), numbers[0].units),
}


@v_args(inline=True)
class Reading(Transformer[Token, Any]):
    """Base of what gives the value of a reading: a method without an underscore is called for the rule of its name.

    Args:
        language: of the words.
        words: that are read.
        given: results of the steps before, to which "it" refers, as texts or quantities.
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
        given: Sequence[Any],
        now: datetime,
        pool: Sequence[WorkerCard],
        aside: str,
    ) -> None:
        super().__init__(visit_tokens=False)
        self.language, self.now, self.aside = language, now, aside
        self._words, self._given, self._pool = words, given, pool
        self.used_given = False

    def __default__(self, data: str, children: list[Any], meta: Any) -> Any:
        """Look up what a rule means; of one that is named so, its parts come the other way round."""
        name = data.removesuffix("_swapped")
        parts = children[::-1] if name != data else children
        if name in CHANGES:
            return CHANGES[name](self.the(next((part for part in children if not isinstance(part, Token)), None)))
        if name in STORIES:
            return STORIES[name](self, *all_of(parts, Quantity))
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
        return [self.shown(given).strip() for given in self._given]

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
        text = self.it()
        found: Quantity = self._given[0] if isinstance(self._given[0], Quantity) else self._read(text, "sum")
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
    def multiply(self, one: Quantity, other: Quantity) -> Quantity:
        if not (one.units and other.units) or one.is_percent or other.is_percent:
            return one.times(other)
        for (first, second), dimension in _PRODUCTS.items():
            for a, b in ((one, other), (other, one)):
                if (own := a.unit_of(first)) and (others := b.unit_of(second)):
                    symbols = (f"{own.symbol}²", own.symbol.replace("²", "³"), own.symbol.split("/")[0])
                    unit = self.language.unit((*symbols, _USUAL[dimension]), dimension)
                    base = a.amount * own.factor * b.amount * others.factor * _LITERS.get(dimension, 1)
                    return Quantity(base / unit.factor, (unit,))
        raise WorkerError("what these measures give together is not known")

    def quotient(self, one: Quantity, other: Quantity) -> Quantity:
        """The quotient, of measures of different kinds such as a speed."""
        alike = any(other.unit_of(unit.dimension) for unit in one.units)
        if not (one.units and other.units and other.amount) or one.is_percent or other.is_percent or alike:
            return one.over(other)
        for (first, second), dimension in _PRODUCTS.items():
            for divisor, result in ((first, second), (second, first)):
                if (own := one.unit_of(dimension)) and (others := other.unit_of(divisor)):
                    symbols = (f"{own.symbol}/{others.symbol}", *others.symbol.split("/")[1:])
                    symbols = ("mph", *symbols) if symbols[0] == "mi/h" else symbols
                    unit = self.language.unit((*symbols, _USUAL[result]), result)
                    base = one.amount * own.factor / (other.amount * others.factor * _LITERS.get(dimension, 1))
                    return Quantity(base / unit.factor, (unit,))
        raise WorkerError("what these measures give together is not known")

    def power(self, base: Quantity, exponent: Quantity) -> Quantity:
        if abs(exponent.number) > LARGEST_POWER or abs(base.number) > 10**12:
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
        if not (one.number.denominator == 1 and 0 <= one.number <= LARGEST_FACTORIAL):
            raise WorkerError(f"factorials are worked out of whole numbers up to {LARGEST_FACTORIAL}")
        return number_of(math.factorial(one.whole))

    def round(self, one: Quantity, decimals: Quantity | Token | None = None) -> Quantity:
        places = (
            int(self.language.value(decimals)) if isinstance(decimals, Token) else decimals.whole if decimals else 0
        )
        if abs(places) > 30:
            raise WorkerError("so many decimals are not shown")
        return Quantity(Fraction(rounded(one.amount, places)), one.units)

    # Stories
    def share_of_price(self, *parts: Quantity) -> Quantity:
        cost, number, *tips = sorted(all_of(parts, Quantity), key=lambda part: part.is_percent)
        return total(cost, *tips).over(Quantity(number.number))

    def spent(self, *parts: Quantity) -> Quantity:
        had, *number, cost = all_of(parts, Quantity)
        if had.is_count:
            raise WorkerError("money is wanted, to pay with")
        return had.plus(reduce(Quantity.times, (cost, *number)), -1)

    def left(self, given: Quantity) -> Quantity:
        """What a story has come to, if one was told."""
        if not isinstance(self._given[0], Quantity):
            raise WorkerError("there is nothing of which something may be left")
        return given

    def contents(self, held: Quantity, asked: str, holders: Quantity) -> Quantity:
        """What many hold, given what one does."""
        if not held.unit_of(asked):
            raise WorkerError("something else is asked than what is held")
        return held.times(holders.amount)

    def travel(self, one: Quantity, other: Quantity) -> Quantity:
        """What two of way, time and speed say of the third."""
        if (one.unit_of("speed") and other.unit_of("length")) or (one.unit_of("time") and other.unit_of("length")):
            one, other = other, one
        if one.unit_of("length") and (other.unit_of("time") or other.unit_of("speed")):
            return self.quotient(one, other)
        if {True} != {bool(one.unit_of(kind) or other.unit_of(kind)) for kind in ("speed", "time")}:
            raise WorkerError("a way, a time or a speed is wanted")
        return self.multiply(one, other)

    def shape(self, *parts: Quantity | Token) -> Quantity:
        (kind,), sides = {part.type for part in all_of(parts, Token)}, all_of(parts, Quantity)
        units = next((side.units for side in sides if side.units), ())
        sides = [side if side.units else Quantity(side.amount, units) for side in sides]
        if len(sides) != (3 if kind == "VOLUME" else 2):
            raise WorkerError("the number of sides is another one")
        if kind == "DIAGONAL":
            squares = (side.converted(units).amount ** 2 for side in sides)
            return Quantity(self.root(2, Quantity(sum(squares, Fraction(0)))).amount, units)
        return total(*sides).times(2) if kind == "PERIMETER" else reduce(self.multiply, sides)

    def round_shape(self, *parts: Quantity | Token) -> Quantity:
        kinds, side = {part.type for part in all_of(parts, Token)}, first_of(parts, Quantity)
        if "SQUARE" in kinds:
            return side.times(4) if "PERIMETER" in kinds else self.multiply(side, side)
        radius = side.times(Fraction(1, 2)) if "DIAMETER" in kinds else side
        result = radius.times(2) if "PERIMETER" in kinds else self.multiply(radius, radius)
        return replace(result.times(Fraction(math.pi)), is_converted=True)

    # Rows of numbers
    def so_few(self, number: Quantity) -> int:
        return at_most(number.whole, MOST_NUMBERS, f"at most {MOST_NUMBERS} numbers are written")

    def numbers_between(self, *parts: Quantity | Token) -> str:
        tokens = {part.type for part in all_of(parts, Token)}
        *start, end = (part.whole for part in all_of(parts, Quantity))
        first, last = start[0] if start else 1, end - ("BELOW" in tokens)
        self.so_few(number_of(abs(last - first) or 1))
        step = 1 if first <= last else -1
        wanted = next((test for kind, test in SORTS_OF_NUMBER.items() if f"{kind}S" in tokens), lambda one: True)
        return self.listed(str(n) for n in range(first, last + step, step) if wanted(number_of(n)))

    def first_numbers(self, how_many: Quantity, kind: Token) -> str:
        number, found = self.so_few(how_many), [0, 1]
        while kind.type == "FIBONACCI" and len(found) < number:
            found.append(found[-1] + found[-2])
        if kind.type == "PRIMES":
            found = list(islice(filter(is_prime, count(2)), number))
        return ", ".join(map(str, found[:number]))

    def chance(self, kind: Token, *limits: Quantity) -> str:
        if kind.type == "HEADS":
            return self.say(secrets.choice(("heads", "tails")))
        first, last = sorted(limit.whole for limit in limits) or [1, 6 if kind.type == "DIE" else 100]
        return str(first + secrets.randbelow(last - first + 1))

    # Conversions
    def convert_to_both(self, quantity: Quantity, one: Token, other: Token) -> str:
        small, large = sorted(map(self.language.units, (one, other)), key=lambda units: units[0].factor)
        whole = quantity.converted(large)
        full = Quantity(Fraction(math.floor(whole.amount)), whole.units)
        rest = whole.plus(full, -1).converted(small)
        return " ".join(self.shown(part) for part in (full, rest) if part.amount or part is full)

    def from_roman(self, *parts: Token) -> str:
        signs = str(next(part for part in parts if part.type == "ROMAN_NUMBER"))
        worth = {sign: value for value, sign in ROMAN}
        values = [worth[sign] for sign in signs]
        number = sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))
        if number >= 4000 or roman(number) != signs:
            raise ImpossibleError(f"{signs} is no Roman numeral")
        return str(number)

    def from_binary(self, *parts: Token) -> str:
        digits = str(next(part for part in parts if part.type == "NUMBER"))
        if set(digits) - {"0", "1"}:
            raise WorkerError(f"{digits} is no binary number")
        return str(int(digits, 2))

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

    def append(self, *parts: Quantity | str) -> str:
        times = number.whole if (number := first_of(parts, Quantity)) else 1
        piece, *given = all_of(parts, str)
        return self.the(given[0] if given else None) + piece * min(times, _LONGEST)

    def split_up(self, *parts: str) -> list[str]:
        """A text in pieces of a kind, else in words, or between signs."""
        kind = next((part for part in parts if part in PIECES), None)
        text = self.the(next((part for part in parts if part not in PIECES), None))
        if kind is None and len(parts) > 1:
            return [piece.strip() for piece in text.split(parts[1])]
        return pieces_of(kind or "WORDS", text)

    def position(self, piece: str, text: str) -> str:
        if (place := text.lower().find(piece.lower())) < 0:
            raise WorkerError(f"the text has no {piece!r}")
        return str(place + 1)

    def commonest(self, *parts: Token | str) -> str:
        counts = Counter(pieces_of("LETTERS", self.the(first_of(parts, str)).lower()))
        return ", ".join(letter for letter, times in counts.items() if times == max(counts.values()))

    def count_all(self, *parts: str | Callable[[str], str]) -> str:
        text = self.the(first_of(parts, str))
        return self.say("and").join(part(text) for part in parts if not isinstance(part, str))

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

    def extreme(self, which: Token, text: str | None = None) -> str:
        if not (words := pieces_of("WORDS", self.the(text))):
            raise WorkerError("there are no words")
        return (max if which.type == "LONGEST" else min)(words, key=len)

    def without(self, kind: str, text: str | None = None) -> str:
        kept = re.sub(PIECES[kind], "", self.the(text), flags=re.IGNORECASE)
        return kept if kind == "SPACES" else re.sub(r" {2,}", " ", kept).strip()

    def replace(self, old: str, new: str, text: str | None = None) -> str:
        if old not in (whole := self.the(text)):
            raise WorkerError(f"the text has no {old!r}")
        return whole.replace(old, new)

    def repeat(self, text: str, number: Quantity) -> str:
        times = number.number
        if times.denominator != 1 or not 0 < times * (len(text) + 1) <= _LONGEST:
            raise WorkerError("that is too long")
        return (" " if len(text) > 1 else "").join([text] * int(times))

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

    def beyond(self, which: Token, above: str, limit: Fraction, size: Callable[[str], Fraction]) -> Filter:
        """Whether an item's size is above or below a limit."""
        return lambda item: size(item) > limit if which.type == above else size(item) < limit

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

    def several(self, which: Token, number: Quantity, items: Items | None = None) -> str:
        chosen, place = self.these(items), self.language.value(which) if which.type == "ORDINAL" else 1
        if which.type != "ORDINAL":
            amounts = zip(_amounts(self.quantities(chosen)), chosen, strict=True)
            chosen = [item for _, item in sorted(amounts, reverse=which.type == "MAXIMUM")]
        if number.number.denominator != 1 or not 0 < number.number <= len(chosen) or place not in (1, -1):
            raise WorkerError(f"the list has only {len(chosen)} items")
        return ", ".join(chosen[: number.whole] if place == 1 else chosen[-number.whole :])

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

    def rank(self, place: int, items: Items | None) -> str:
        """The item of the place among the largest, or from the smallest on where it is negative."""
        chosen = self.these(items)
        amounts = dict(zip(_amounts(self.quantities(chosen)), chosen, strict=True))
        return nth_of([item for _, item in sorted(amounts.items(), reverse=True)], place)

    def each(self, change: Callable[..., Quantity], *parts: Items | Quantity) -> str:
        numbers = self.quantities(self.these(first_of(parts, list)))
        return ", ".join(self.shown(change(one, *all_of(parts, Quantity))) for one in numbers)
