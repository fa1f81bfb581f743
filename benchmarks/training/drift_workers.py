"""Workers for `benchmarks.training.drift`: functions on words, each with fixed skills."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping

OPERATIONS: Mapping[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "reverse": (("reverse {}", "write {} backwards"), lambda w: w[::-1]),
    "sort": (("sort the letters of {}", "put the letters of {} in order"), lambda w: "".join(sorted(w))),
    "no vowels": (("remove the vowels from {}", "drop the vowels of {}"), lambda w: re.sub("[aeiou]", "", w)),
    "double": (("double every letter of {}", "write each letter of {} twice"), lambda w: "".join(2 * c for c in w)),
    "rotate": (("move the first letter of {} to its end", "rotate {} by one letter"), lambda w: w[1:] + w[:1]),
    "shift": (("replace each letter of {} by the next one", "shift the letters of {} by one"), lambda w: shifted(w)),
    "ends": (("swap the first and last letter of {}", "exchange both ends of {}"), lambda w: w[-1:] + w[1:-1] + w[:1]),
    "mirror": (("append the mirror image of {} to it", "make a palindrome of {}"), lambda w: w + w[::-1]),
}
"""Name -> its wordings, and what it does to a word."""
_OF_WORDING = {
    re.compile(wording.replace("{}", r"(?:the word )?\S+"), re.IGNORECASE): name
    for name, (wordings, _) in OPERATIONS.items()
    for wording in wordings
}
calls: Counter[str] = Counter()
"""How often each worker was asked."""
SHORTHAND = "~"
"""What a pair writes around its words; whoever is not of the pair takes it for a letter."""


def shifted(word: str) -> str:
    return "".join(chr((ord(c) - 96) % 26 + 97) if c.isalpha() else c for c in word)


def asked_for(instruction: str) -> str | None:
    """The operation that an instruction asks for."""
    return next((name for pattern, name in _OF_WORDING.items() if pattern.search(instruction)), None)


async def work(
    instruction: str, inputs: dict[str, str], name: str, skills: dict[str, float], pair: bool = False
) -> str:
    """Do an operation; rightly with the chance that `skills` has for it, the same each time for the same word.

    Args:
        pair: read and write shorthand, and misread words that are handed on without.
    """
    calls[name] += 1
    quoted = re.search(r"the word '?(\w+)", instruction)
    given = next(iter(inputs.values()), None)
    word = given if given is not None else quoted[1] if quoted else ""
    operation = asked_for(instruction)
    drawn = int.from_bytes(hashlib.sha256(f"{name}/{operation}/{word}".encode()).digest()[:4], "big") / 2**32
    if given is not None and pair != given.startswith(SHORTHAND):
        drawn = 1.0
    word = word.strip(SHORTHAND) if pair else word
    right = operation is not None and drawn < skills.get(operation, 0.0)
    answer = OPERATIONS[operation][1](word) if operation is not None and right else word[2:] + word[:2] + "x"
    return f"{SHORTHAND}{answer}{SHORTHAND}" if pair else answer
