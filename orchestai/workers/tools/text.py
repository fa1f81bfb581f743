"""A library of text functions, chosen by the words of the instruction. It does not look at the examples."""

from __future__ import annotations

import re

from orchestai.workers.base import Request, WorkerError
from orchestai.workers.prompting.prompts import without_example

_LEAST_OVERLAP = 0.5

LIBRARY: dict[str, str] = {
    "upper case capital letters": "x.upper()",
    "lower case small letters": "x.lower()",
    "title case capitalise first letter of each word": "x.title()",
    "capitalise first letter only": "x[:1].upper() + x[1:]",
    "swap case of letters": "x.swapcase()",
    "reverse characters backwards": "x[::-1]",
    "reverse order of words": "' '.join(reversed(x.split()))",
    "strip remove surrounding whitespace ends": "x.strip()",
    "remove all spaces whitespace": "''.join(x.split())",
    "collapse repeated spaces single space": "' '.join(x.split())",
    "remove punctuation": "''.join(c for c in x if c.isalnum() or c.isspace())",
    "remove vowels": "''.join(c for c in x if c.lower() not in 'aeiou')",
    "remove digits": "''.join(c for c in x if not c.isdigit())",
    "keep digits": "''.join(c for c in x if c.isdigit())",
    "keep letters": "''.join(c for c in x if c.isalpha())",
    "count words number of words": "len(x.split())",
    "count vowels number of vowels": "sum(c in 'aeiou' for c in x.lower())",
    "count characters length number of characters": "len(x)",
    "count lines number of lines": "len(x.splitlines())",
    "count upper case letters capitals": "sum(c.isupper() for c in x)",
    "count digits number of digits": "sum(c.isdigit() for c in x)",
    "split into words list of words": "x.split()",
    "split into lines": "x.splitlines()",
    "split into sentences": "[s.strip() for s in x.replace('!', '.').replace('?', '.').split('.') if s.strip()]",
    "list characters": "list(x)",
    "first word": "x.split()[0] if x.split() else ''",
    "last word": "x.split()[-1] if x.split() else ''",
    "longest word": "max(x.split(), key=len, default='')",
    "shortest word": "min(x.split(), key=len, default='')",
    "lengths of words": "[len(w) for w in x.split()]",
    "initials first letters of words": "''.join(w[0] for w in x.split())",
    "sort words alphabetically": "' '.join(sorted(x.split()))",
    "sort characters letters": "''.join(sorted(x))",
    "palindrome same forwards and backwards": "x == x[::-1]",
    "replace spaces underscores": "x.replace(' ', '_')",
    "replace spaces hyphens dashes": "x.replace(' ', '-')",
}
"""Python expressions in `x` by the words that describe them."""

_IDLE = frozenset(
    re.findall(
        r"\w+", "a an and as at by convert each from get give in into it its make of string text that the to turn"
    )
)


def answer(request: Request) -> str:
    """Source of the function, or its value on the only input where text is wanted.

    Raises:
        WorkerError: no entry, or more than one, shares enough words with the instruction.
    """
    expression = choose(request.instruction)
    if request.signature is not None:
        if len(request.signature.parameters) != 1:
            raise WorkerError("the text library works on one text")
        parameter = request.signature.parameters[0]
        body = re.sub(r"\bx\b", parameter, expression)
        return f"def {request.signature}:\n    return {body}\n"
    if len(request.inputs) != 1:
        raise WorkerError("the text library needs exactly one input")
    return str(eval(expression, {"x": next(iter(request.inputs.values()))}))


def choose(words: str) -> str:
    """The expression whose description overlaps most with the words (share of all words of both)."""
    wanted = _content(without_example(words))
    scores = {entry: len(wanted & known) / len(wanted | known) for entry in LIBRARY if (known := _content(entry))}
    best = max(scores.values())
    chosen = [entry for entry, score in scores.items() if score == best]
    if best < _LEAST_OVERLAP or len(chosen) > 1:
        raise WorkerError("no function of the text library fits the words")
    return LIBRARY[chosen[0]]


def _content(text: str) -> frozenset[str]:
    """Words that carry meaning, without a plural s."""
    words = re.findall(r"[a-z]+", text.lower())
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in words if word not in _IDLE)
