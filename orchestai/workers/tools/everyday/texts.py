"""What the rules for texts mean."""

from __future__ import annotations

import re

from lark import Token, v_args

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.quantity import Quantity
from orchestai.workers.tools.everyday.reading import ASIDE, QUOTED, Reading

_PIECES = {
    "LETTERS": r"[^\W\d_]",
    "CHARACTERS": r"(?s:.)",
    "WORDS": r"\w+(?:['’.\-]\w+)*",
    "VOWELS": r"[aeiouyäöüáàâéèêëíìîïóòôúùûæœø]",
    "CONSONANTS": r"(?![aeiouäöüáàâéèêëíìîïóòôúùûæœø])[^\W\d_]",
    "DIGITS": r"\d",
    "SPACES": r"\s",
    "SENTENCES": r"[^.!?…\s][^.!?…]*(?:[.!?…]+(?!\s|$)[^.!?…]*)*[.!?…]*",
    "LINES": r"[^\n]*\S[^\n]*",
    "CAPITALS": r"(?-i:(?=[^\W\d_])[^a-zß-öø-ÿ\W\d_])",
    "PUNCTUATION": r"[^\w\s]",
}
"""What the kinds of pieces are that a text is counted, searched and cut by."""
_PIECES["VOWELS"] = _PIECES["VOWELS"].replace("y", "")
_SIGNS = {"SPACES": " ", "UNDERSCORE": "_", "HYPHEN": "-", "COMMA": ","}
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
_OF_A_WORD = ("LETTERS", "CHARACTERS", "VOWELS", "CONSONANTS", "CAPITALS")


class _Word(str):
    """A word that stands alone, without quotes."""


@v_args(inline=True)
class Texts(Reading):
    # Texts
    def quoted(self, text: Token) -> str:
        return text[1:-1].replace(ASIDE, self._aside)

    def rest(self, text: Token) -> str:
        given = text[1:].strip().replace(ASIDE, self._aside)
        return re.sub(rf"^(?:{QUOTED})$", lambda quoted: quoted[0][1:-1], given)

    def word(self, word: Token) -> str:
        before = self._words[: word.start_pos]
        if UNSAID.match(word) or ARTICLE.search(before):
            raise WorkerError(f"{word!r} is spoken of, and no text to work on")
        return _Word(word)

    def plain(self, *words: Token) -> str:
        if len(words) > _MOST_PLAIN:
            raise WorkerError("where a text begins and ends is not clear; put it in quotes")
        return self.free(*words)

    def free(self, *words: Token) -> str:
        text = self._words[words[0].start_pos : words[-1].end_pos]
        if UNSAID.match(text) or ": " in text or ARTICLE.search(self._words[: words[0].start_pos]):
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

    def letter(self, piece: Token) -> str:
        return self.piece(piece)

    def piece(self, piece: Token) -> str:
        if piece.type == "QUOTED":
            return piece[1:-1]
        if piece.type == "LETTER":
            return piece[0]
        return _SIGNS.get(piece.type, str(piece))

    def kind(self, kind: Token) -> str:
        return kind.type

    # What is done with them
    def reverse(self, text: str | None = None) -> str:
        return "".join(reversed(re.findall(r"(?s).[\u0300-\u036f\ufe0f]*", self._text(text))))

    def reverse_words(self, text: str | None = None) -> str:
        return " ".join(reversed(self._text(text).split()))

    def written(self, *parts: str | list[Token]) -> str:
        (styles,) = (part for part in parts if isinstance(part, list))
        text = self._text(next((part for part in parts if isinstance(part, str)), None))
        write = {"BACKWARDS": self.reverse, "UPPER": self.upper, "LOWER": self.lower, "TITLE": self.title}
        for style in styles:
            text = write[style.type](text)
        return text

    def upper(self, text: str | None = None) -> str:
        return self._text(text).upper()

    def lower(self, text: str | None = None) -> str:
        return self._text(text).lower()

    def title(self, text: str | None = None) -> str:
        return re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:], self._text(text))

    def count(self, kind: str, text: str | None = None) -> str:
        return str(len(self._pieces(kind, self._text(text))))

    def word_count(self, text: str | None = None) -> str:
        return self.count("WORDS", text)

    def length(self, text: str | None = None) -> str:
        return str(len(self._text(text)))

    def occurrences(self, piece: str, text: str | None = None) -> str:
        return str(self._text(text).lower().count(piece.lower()))

    def pick(self, ordinal: Token, kind: str, text: str | None = None) -> str:
        pieces, place = self._pieces(kind, self._text(text)), self._language.value(ordinal)
        if not -len(pieces) <= place <= len(pieces):
            raise WorkerError(f"there are only {len(pieces)}")
        return pieces[place - (place > 0)]

    def pick_some(self, ordinal: Token, count: Quantity, kind: str, text: str | None = None) -> str:
        pieces, place = self._pieces(kind, self._text(text)), self._language.value(ordinal)
        if place not in (1, -1) or count.number.denominator != 1 or not 0 < count.number <= len(pieces):
            raise WorkerError(f"there are only {len(pieces)}")
        picked = pieces[: int(count.number)] if place == 1 else pieces[-int(count.number) :]
        return (" " if kind in ("WORDS", "SENTENCES") else "\n" if kind == "LINES" else "").join(picked)

    def extreme(self, which: Token, text: str | None = None) -> str:
        words = self._pieces("WORDS", self._text(text))
        if not words:
            raise WorkerError("there are no words")
        return (max if which.type == "LONGEST" else min)(words, key=len)

    def initials(self, text: str | None = None) -> str:
        return "".join(word[0].upper() for word in self._pieces("WORDS", self._text(text)))

    def palindrome(self, text: str | None = None) -> str:
        letters = "".join(self._pieces("LETTERS", self._text(text).lower()))
        return self._in("Yes", "Ja") if letters == letters[::-1] else self._in("No", "Nein")

    def without(self, kind: str, text: str | None = None) -> str:
        kept = re.sub(_PIECES[kind], "", self._text(text), flags=re.IGNORECASE)
        return kept if kind == "SPACES" else re.sub(r" {2,}", " ", kept).strip()

    def only(self, kind: str, text: str | None = None) -> str:
        found = self._pieces(kind, self._text(text))
        return "".join(found) if kind in ("LETTERS", "DIGITS", "CAPITALS") else ", ".join(found)

    def contains(self, text: str, piece: str) -> str:
        return self._in("Yes", "Ja") if piece.lower() in text.lower() else self._in("No", "Nein")

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

    def sort_letters(self, text: str | None = None) -> str:
        return "".join(sorted(self._pieces("LETTERS", self._text(text)), key=lambda letter: (letter.lower(), letter)))

    def spell(self, text: str | None = None) -> str:
        return "-".join(self._pieces("CHARACTERS", self._text(text)))

    def concatenate(self, one: Token, other: Token) -> str:
        return self.quoted(one) + self.quoted(other)

    def _text(self, text: str | None) -> str:
        return self._it() if text is None else text

    @staticmethod
    def _pieces(kind: str, text: str) -> list[str]:
        if isinstance(text, _Word) and kind not in _OF_A_WORD:
            raise WorkerError(f"{text!r} may be the name of a text, and none is given")
        return [piece.strip() if len(piece) > 1 else piece for piece in re.findall(_PIECES[kind], text, re.IGNORECASE)]
