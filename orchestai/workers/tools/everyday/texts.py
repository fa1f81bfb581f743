"""What the rules for texts mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial, partialmethod
from typing import Any

from lark import Token, v_args

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.quantity import Quantity, whole
from orchestai.workers.tools.everyday.reading import ASIDE, QUOTED, Reading

_ABBREVIATED = "|".join(
    rf"(?<=\b{word})" for word in ("Dr", "Mr", "Mrs", "Ms", "St", "Prof", "Nr", "No", "vs", "ca", "bzw")
)
_PIECES = {
    "LETTERS": r"[^\W\d_]",
    "CHARACTERS": r"(?s:.)",
    "WORDS": r"\w+(?:['’.\-]\w+)*",
    "VOWELS": r"[aeiouyäöüáàâéèêëíìîïóòôúùûæœø]",
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
_PIECES["VOWELS"] = _PIECES["VOWELS"].replace("y", "")
_SIGNS = {
    **{"SPACES": " ", "UNDERSCORE": "_", "HYPHEN": "-", "COMMA": ","},
    **{"SEMICOLON": ";", "PERIOD_SIGN": ".", "SLASH": "/", "BREAK": "\n", "EXCLAMATION": "!", "QUESTION": "?"},
}
_NAME_PART = re.compile(r"[^\W_]+")
_MOST_PLAIN = 5
_LONGEST = 20_000
UNSAID = re.compile(
    r"(?:an?|my|your|our|his|her|every|each|all|some|any|no|to|that|which|who|how|why|what|when|where|is|are|you|i|we|us"
    r"|on|of|for|with|about|by|at|from|as|ein|eine[nmrs]?|mein\w*|dein\w*|unser\w*|jede\w*|alle|einige|dass|wie|was|warum"
    r"|wer|wo|wann|ich|wir|mir|uns|auf|von|für|mit|über|bei|an|zu|aus)\s|(?:alphabet|english|german|french|spanish|englisch|deutsch|englischen|deutschen)$",
    re.IGNORECASE,
)
"""How something begins that is spoken of, and not given."""
ARTICLE = re.compile(r"\b(?:the|der|die|das|den|dem|des)\s+$", re.IGNORECASE)
CONDITION = re.compile(
    r",\s+(?:ignoring|excluding|without|except|including|not counting|counting|ohne|außer|wobei)\b[^,]*$", re.IGNORECASE
)
"""How a text ends that may say how it is to be read."""
_OF_A_WORD = ("LETTERS", "CHARACTERS", "VOWELS", "CONSONANTS", "CAPITALS")


class _Word(str):
    """A word that stands alone, without quotes."""


def _pieces(kind: str, text: str) -> list[str]:
    if isinstance(text, _Word) and kind not in _OF_A_WORD:
        raise WorkerError(f"{text!r} may be the name of a text, and none is given")
    if text.isdecimal() and kind not in ("DIGITS", "CHARACTERS"):
        raise WorkerError(f"{text} is a number, and no text")
    return [piece.strip() if len(piece) > 1 else piece for piece in re.findall(_PIECES[kind], text, re.IGNORECASE)]


def _reversed(text: str) -> str:
    return "".join(reversed(re.findall(r"(?s).[\u0300-\u036f\ufe0f]*", text)))


def _camel(text: str) -> str:
    first, *others = _NAME_PART.findall(text) or [""]
    return first.lower() + "".join(word.capitalize() for word in others)


def _sorted_words(text: str) -> str:
    lines = "\n" in text
    return ("\n" if lines else " ").join(sorted(text.splitlines() if lines else text.split(), key=str.lower))


_CHANGES: dict[str, Callable[[str], str]] = {
    "reverse": _reversed,
    "backwards": _reversed,
    "reverse_words": lambda text: " ".join(reversed(text.split())),
    "reverse_each": lambda text: re.sub(r"\S+", lambda word: word[0][::-1], text),
    "upper": str.upper,
    "lower": str.lower,
    "title": lambda text: re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:], text),
    "sentence_case": lambda text: re.sub(r"(?:^|(?<=[.!?]\s))\s*[^\W\d_]", lambda first: first[0].upper(), text),
    "swap_case": str.swapcase,
    "snake": lambda text: "_".join(_NAME_PART.findall(text)).lower(),
    "kebab": lambda text: "-".join(_NAME_PART.findall(text)).lower(),
    "camel": _camel,
    "trim": str.strip,
    "sort_words": _sorted_words,
    "sort_letters": lambda text: "".join(sorted(_pieces("LETTERS", text), key=lambda letter: (letter.lower(), letter))),
    "spell": lambda text: "-".join(_pieces("CHARACTERS", text)),
    "initials": lambda text: "".join(word[0].upper() for word in _pieces("WORDS", text)),
}
"""By the name of a rule or a style."""


@v_args(inline=True)
class Texts(Reading):
    # Texts
    def quoted(self, text: Token) -> str:
        return str(text[1:-1]).replace(ASIDE, self._aside)

    def rest(self, text: Token) -> str:
        given = text[1:].strip().replace(ASIDE, self._aside)
        if CONDITION.search(given):
            raise WorkerError("whether the text's last words belong to it is not clear; put it in quotes")
        return re.sub(rf"^(?:{QUOTED})$", lambda quoted: quoted[0][1:-1], given)

    def word(self, word: Token) -> str:
        return _Word(self.free(word))

    def plain(self, *words: Token) -> str:
        if len(words) > _MOST_PLAIN:
            raise WorkerError("where a text begins and ends is not clear; put it in quotes")
        return self.free(*words)

    def free(self, *words: Token) -> str:
        text = self._words[words[0].start_pos : words[-1].end_pos]
        if (
            UNSAID.match(text)
            or CONDITION.search(text)
            or ": " in text
            or ARTICLE.search(self._words[: words[0].start_pos])
        ):
            raise WorkerError(f"{text[:40]!r} is spoken of, and no text to work on")
        return text

    def named(self, word: Token) -> str:
        return str(word)

    def style(self, *styles: Token) -> list[Token]:
        return list(styles)

    def taken(self, given: str | Quantity) -> str | Quantity:
        return given

    def text_it(self, _: Token) -> str:
        return self._it()

    def piece(self, piece: Token) -> str:
        if piece.type == "QUOTED":
            return piece[1:-1]
        if piece.type == "LETTER":
            return piece[0]
        return _SIGNS.get(piece.type, str(piece))

    def kinds(self, kind: Token) -> str:
        return kind.type

    def kind(self, _: Token) -> str:
        return "WORDS"

    # What is done with them
    def __default__(self, data: str, children: list[Any], meta: Any) -> Any:
        """Change a text as `_CHANGES` says."""
        if (change := _CHANGES.get(data.removesuffix("_swapped"))) is None:
            return super().__default__(data, children, meta)
        return change(self._text(next((part for part in children if not isinstance(part, Token)), None)))

    def written(self, *parts: str | list[Token]) -> str:
        (styles,) = (part for part in parts if isinstance(part, list))
        text = self._text(next((part for part in parts if isinstance(part, str)), None))
        for style in styles:
            text = _CHANGES[style.type.lower()](text)
        return text

    def append(self, *parts: Quantity | str) -> str:
        count = next((whole(part) for part in parts if isinstance(part, Quantity)), 1)
        piece, *given = (part for part in parts if isinstance(part, str))
        return self._text(given[0] if given else None) + piece * min(count, _LONGEST)

    def prepend(self, piece: str, text: str | None = None) -> str:
        return piece + self._text(text)

    def _tested(self, is_so: Callable[[str, str], bool], *parts: str) -> str:
        return self._yes(is_so(*(part.lower() for part in parts)))

    starts_with = partialmethod(_tested, str.startswith)
    ends_with = partialmethod(_tested, str.endswith)
    contains = partialmethod(_tested, str.__contains__)

    def anagram(self, one: str, other: str) -> str:
        first, second = (sorted(_pieces("LETTERS", text.lower())) for text in (one, other))
        return self._yes(first == second)

    def between_letters(self, piece: str, text: str | None = None) -> str:
        return piece.join(self._text(text))

    def on_lines(self, *parts: str) -> str:
        return "\n".join(self._split_up(*parts))

    def split(self, text: str, piece: str) -> str:
        return ", ".join(self._split_up(text, piece))

    def _split_up(self, *parts: str) -> list[str]:
        """A text in pieces of a kind, else in words, or between signs."""
        kind = next((part for part in parts if part in _PIECES), None)
        text = self._text(next((part for part in parts if part not in _PIECES), None))
        if kind is None and len(parts) > 1:
            return [piece.strip() for piece in text.split(parts[1])]
        return _pieces(kind or "WORDS", text)

    def position(self, piece: str, text: str) -> str:
        if (place := text.lower().find(piece.lower())) < 0:
            raise WorkerError(f"the text has no {piece!r}")
        return str(place + 1)

    def frequencies(self, text: str | None = None) -> str:
        counts = Counter(_pieces("LETTERS", self._text(text).lower()))
        return ", ".join(f"{letter}: {count}" for letter, count in counts.items())

    def commonest(self, *parts: Token | str) -> str:
        text = next((part for part in parts if not isinstance(part, Token)), None)
        counts = Counter(_pieces("LETTERS", self._text(text).lower())).most_common()
        return ", ".join(letter for letter, count in counts if count == counts[0][1])

    def count_different(self, kind: str, text: str) -> str:
        return str(len({piece.lower() for piece in _pieces(kind, text)}))

    def count(self, kind: str, text: str | None = None) -> str:
        return str(len(_pieces(kind, self._text(text))))

    def tally(self, piece: str) -> Callable[[str], str]:
        return partial(self.count if piece in _PIECES else self.occurrences, piece)

    def count_all(self, *parts: str | Callable[[str], str]) -> str:
        text = self._text(next((part for part in parts if isinstance(part, str)), None))
        return self._in(" and ", " und ").join(part(text) for part in parts if not isinstance(part, str))

    def word_count(self, text: str | None = None) -> str:
        return self.count("WORDS", text)

    def length(self, text: str | None = None) -> str:
        return str(len(self._text(text)))

    def occurrences(self, piece: str, text: str | None = None) -> str:
        return str(self._text(text).lower().count(piece.lower()))

    def word_occurrences(self, piece: str, text: str | None = None) -> str:
        return str(len(re.findall(rf"(?<!\w){re.escape(piece)}(?!\w)", self._text(text), re.IGNORECASE)))

    def pick(self, ordinal: Token, kind: str, text: str | None = None) -> str:
        pieces, place = _pieces(kind, self._text(text)), self._language.value(ordinal)
        if not -len(pieces) <= place <= len(pieces):
            raise WorkerError(f"there are only {len(pieces)}")
        return pieces[place - (place > 0)]

    def _end(self, which: int, *parts: Token | Quantity | str) -> str:
        """So many pieces at a text's beginning or end (0), or the others (1)."""
        place = next(self._language.value(part) for part in parts if isinstance(part, Token))
        count = next((whole(part) for part in parts if isinstance(part, Quantity)), 1)
        texts = (part for part in parts if isinstance(part, str) and not isinstance(part, Token))
        kind, *text = sorted(texts, key=lambda part: part not in _PIECES)
        pieces = _pieces(kind, self._text(text[0] if text else None))
        if place not in (1, -1) or not 0 < count <= len(pieces):
            raise WorkerError(f"of {len(pieces)}, these are at no end")
        at, mark = count * place, "\n" if kind == "LINES" else " " if kind in ("WORDS", "SENTENCES") else ""
        return mark.join(pieces[:at] if place == 1 - 2 * which else pieces[at:])

    pick_some = partialmethod(_end, 0)
    without_some = partialmethod(_end, 1)

    def extreme(self, which: Token, text: str | None = None) -> str:
        words = _pieces("WORDS", self._text(text))
        if not words:
            raise WorkerError("there are no words")
        return (max if which.type == "LONGEST" else min)(words, key=len)

    def palindrome(self, text: str | None = None) -> str:
        letters = "".join(_pieces("LETTERS", self._text(text).lower()))
        return self._yes(letters == letters[::-1])

    def _yes(self, is_so: bool) -> str:
        return self._in("Yes", "Ja") if is_so else self._in("No", "Nein")

    def without(self, kind: str, text: str | None = None) -> str:
        kept = re.sub(_PIECES[kind], "", self._text(text), flags=re.IGNORECASE)
        return kept if kind == "SPACES" else re.sub(r" {2,}", " ", kept).strip()

    def only(self, kind: str, text: str | None = None) -> str:
        found = _pieces(kind, self._text(text))
        return "".join(found) if kind in ("LETTERS", "DIGITS", "CAPITALS") else ", ".join(found)

    def without_piece(self, piece: str, text: str | None = None) -> str:
        return self.replace(piece, "", text)

    def replace(self, old: str, new: str, text: str | None = None) -> str:
        whole = self._text(text)
        if old not in whole:
            raise WorkerError(f"the text has no {old!r}")
        return whole.replace(old, new)

    def replace_in(self, text: str, old: str, new: str) -> str:
        return self.replace(old, new, text)

    def repeat(self, text: str, count: Quantity) -> str:
        times = count.number
        if times.denominator != 1 or not 0 < times * (len(text) + 1) <= _LONGEST:
            raise WorkerError("that is too long")
        return (" " if " " in text or len(text) > 1 else "").join([text] * int(times))

    def concatenate(self, one: Token, other: Token) -> str:
        return self.quoted(one) + self.quoted(other)

    def _text(self, text: str | None) -> str:
        return self._it() if text is None else text
