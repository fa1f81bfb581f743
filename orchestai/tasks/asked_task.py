"""What somebody asks for in words, as a task."""

from __future__ import annotations

import re
import string
import uuid
from itertools import chain
from keyword import iskeyword
from typing import Literal, TypeAlias

from orchestai.config import TasksConfig
from orchestai.errors import UserError
from orchestai.tasks.dialogue import Dialogue
from orchestai.tasks.task import EXACT, UNIT_TESTS, Task
from orchestai.tasks.visible_examples import parse_calls
from orchestai.text.spoken import as_utf8

AnswerKind: TypeAlias = Literal["program", "text"]

_EXPLAINING = re.compile(
    r"\W*(?:please |bitte )?(?:what|why|how|who|whose|when|where|which|is|are|was|were|does|did|should|explain|"
    r"describe|tell|translate|summari[sz]e|warum|wieso|wie|wer|wann|wo|welche[rsmn]?|ist|sind|sollte?|erklär\w*|beschreib\w*|"
    r"übersetz\w*)\b",
    re.IGNORECASE,
)
"""How an instruction begins that asks to be told something, also where it speaks of programs."""
_SIGNATURE = re.compile(r"\bdef[ \t]+(\w+)[ \t]*\(([^)]*)\)")
_DOCTEST = re.compile(r"(?:^[ \t]*>>>[ \t]*|\bassert[ \t]+)(?!print\b)(\w+)\(", re.MULTILINE)
_CALL = re.compile(r"(?<![\w.])([a-z]\w+_[a-z]\w+)\(([^()]*)\)")
"""A call of a name with an underscore, which is no word of prose as `file(s)` is."""
_SHOWN_CALL = re.compile(
    r"(?<![\w.])([a-z]\w*)\((?=[^()\s])(?:[^()]|\([^()]*\))*\)`?\s*(?:==|=|->|→|=>|(?:returns?|gives?|ergibt|gibt|liefert)\b)",
    re.I,
)
"""A call with its result."""

_MAKING = (
    r"(?<!how to )(?<!had to )\b(?:write|def|create|implement|make|build|develop|code|generate|give|provide|need|want|"
    r"like|define|design|produce|schreibe?|erstelle?|implementiere?|programmiere?|entwick[el]+|baue?|mache?|definiere?|gib|"
    r"liefere?|entwirf|brauche|benötige|möchten?|hätten?|kannst|könn\w+|würdest)\b"
)
_WORDS = (
    r"(?:[ ,]+(?!(?:to|of|for|that|which|about|in|on|with|from|and|or|as|if|how|what|von|zu|für|über|mit|aus|oder|"
    r"wenn)\b)[\w'’+#-]+){0,6}?[ ,]+"
)
"""Up to six further words of the same phrase."""
_FUNCTION = r"(?:python[ -])?(?:functions?|[\w-]*funktion(?:en)?|lambda|decorator|regex|regular expression)"
_PROGRAM = r"(?:programs?|scripts?|class|code|method|procedure|algorithm|[\w-]*(?:programm|skript|klasse|methode|code))"
"""Nouns that name a program where it is said what it does; else a course of exercises, a film or a lesson."""
_DOES = (
    r"(?:,? (?:that|which|to|called|named|namens|taking|returning|die|das|der|zum|zur|um|schreiben)\b|"
    r"(?<=class|lasse) (?-i:[A-Z]))"
)
_ASKED = re.compile(
    rf"{_MAKING}{_WORDS}(?:{_FUNCTION}\b(?! (?:of|names?|keys?|des|von)\b)|{_PROGRAM}(?={_DOES})|"
    rf"python[ -]{_PROGRAM}\b|(?<!\ba )code(?= for\b))|"
    rf"^\W*(?:an? |eine? )?(?:\w+ )?(?:{_FUNCTION}|{_PROGRAM})(?={_DOES})|"
    r"^\W*(?:please |bitte )?(?:implement|implementiere?|programmiere?)\b",
    re.IGNORECASE,
)
"""A verb of making with a program for its object; a program, and what it does; `implement`."""
_LANGUAGE = (
    r"(?:(?i:java ?script|java|type ?script|node\.?js|c\+\+|c#|golang|rust|ruby|php|perl|bash|shell|power ?shell|sql|"
    r"kotlin|swift|haskell|scala|lua|excel|vba|matlab|html|css|latex|julia|awk|sed|fortran|pascal|assembler)|C|R|Go)"
    r"(?![\w+#])"
)
"""A language other than Python."""
_IN_LANGUAGE = re.compile(rf"\b(?:[Ii]n|[Mm]it) {_LANGUAGE}")
_OF_LANGUAGE = re.compile(rf"\b{_LANGUAGE}")

_NAMED_CALL = re.compile(rf"\b(?:{_FUNCTION}|called|named|namens|define|name|write)\W{{1,2}}(\w+)\(([^()]*)\)", re.I)
_NAMED = re.compile(
    rf"\b(?:called|named|namens|call it|name it|genannt|heißt|name (?:is|should be|must be))[ \t]+[`'\"]?(\w+)|"
    rf"\b{_FUNCTION} (?:[`'\"](\w+)|([a-z]|[a-z]*[_\d]\w*|(?-i:[a-z]+[A-Z])\w*)\b)",
    re.IGNORECASE,
)
_WHAT_IT_DOES = re.compile(
    rf"\b(?:{_FUNCTION}|{_PROGRAM})\b[^.:;\n]{{0,40}}?\b(that|which|to) ((?:(?! and )[^.,:;\n(`\"'])+)", re.IGNORECASE
)
_WHETHER = re.compile(
    r"\b(?:if|whether|when) .+ (is|are)(?: an?| the)? ([a-z]+)(?: (?!by|than|in|of)([a-z]+))?"
    r"(?: (?:by|than|in|of)\b.*)?$"
)
"""What it tells of something."""
_SMALL_WORDS = frozenset(
    ["the", "of", "its", "it", "each", "whether", "if", "is", "are", "in", "into", "from", "given"]
)
_COUNTED = re.compile(
    r"(?<!the )(?<!first )(?<!last )\b(two|both|three|zwei|zweier|beide|drei) (?:\w+ )?(?:numbers|integers|strings|"
    r"lists|texts|words|values|arguments|parameters|arrays|dates|sets|zahlen|listen|texte|wörter|werte|zeichenketten)\b",
    re.IGNORECASE,
)
_PART_OF = re.compile(
    r"\b(?:an?|given|specific|certain|eine?n?|bestimmte[rsn]?) "
    r"(?:(character|letter|buchstaben?|zeichen)|(word|wort|substring)|(element|item|value|number|zahl|wert)) .{0,40}?\b"
    r"(?:in|of|from|im|aus) (?:an?|the|given|einem|einer|eine) (?:given )?"
    r"(string|text|sentence|satz|zeichenkette|list|liste|array|wort|word)\b",
    re.IGNORECASE,
)
"""A thing that is looked for, and what it is looked for in."""
_HELD = (
    ("items", re.compile(r"\b(?:lists?|arrays?|listen?)\b", re.I)),
    ("text", re.compile(r"\b(?:strings?|texte?s?|words?|sentences?|titles?|wort|wörter|satz|zeichenketten?)\b", re.I)),
    ("number", re.compile(r"\b(?:numbers?|integers?|zahl(?:en)?)\b", re.I)),
)
"""Parameters by what the instruction speaks of; of several things, the first that holds the others."""
_NO_NAMES = re.compile(r"(?:an?|the|by|with|when|if|once|from|on|in|for|after|before|every|each|as|at|mit|von|die)\Z")
"""What follows `called` where it is no name: "a function called with a list"."""


def asks_for_program(instruction: str) -> bool:
    """Whether an instruction wants a program in Python for its answer, rather than a text.

    It does if it shows a signature, a doctest or a call of the function, or if a verb of making has a word for a
    program as its object ("write me a small function"), unless it names another language, or begins as a question does.
    """
    if _EXPLAINING.match(instruction):
        return False
    if any(shown.search(instruction) for shown in (_SIGNATURE, _DOCTEST, _CALL)):
        return True
    asked = _ASKED.search(instruction)
    if asked is None or _IN_LANGUAGE.search(instruction):
        return False
    return _OF_LANGUAGE.search(asked[0]) is None


def asked_function(instruction: str) -> tuple[str, tuple[str, ...]]:
    """Name and parameters of the function that an instruction asks for: as it says, else by what the function does."""
    signatures = [*_SIGNATURE.findall(instruction)][-1:]
    calls = chain(signatures, _NAMED_CALL.findall(instruction), _CALL.findall(instruction))
    names = (next(filter(None, found)) for found in _NAMED.findall(instruction))
    others = chain(names, _DOCTEST.findall(instruction), _SHOWN_CALL.findall(instruction))
    for name, between in chain(calls, ((name, "") for name in others)):
        if not name.isidentifier() or iskeyword(name) or _NO_NAMES.match(name):
            continue
        parameters = tuple(re.split(r"[=:]", part)[0].strip() for part in between.split(",") if part.strip())
        if all(parameter.lstrip("*").isidentifier() for parameter in parameters) and parameters:
            return name, parameters
        shown = parse_calls(instruction, name)
        return name, _parameters(instruction) if not shown else tuple(string.ascii_lowercase[: len(shown[0].args)])
    return _name(instruction), _parameters(instruction)


def _name(instruction: str) -> str:
    """A verb and its object, such as `reverse_string` of "a function that reverses a string"; empty without them."""
    if (does := _WHAT_IT_DOES.search(instruction)) is None:
        return ""
    if is_so := _WHETHER.search(does[2].lower()):
        return "_".join(filter(None, is_so.groups()))
    words = [word for word in re.findall(r"[a-z]{2,}", does[2].lower()) if word not in _SMALL_WORDS]
    if words and does[1].lower() != "to":
        words[0] = re.sub(r"(?<=ch|sh|ss|zz)es$|(?<=[^s])s$", "", words[0])
    return "_".join(words[len(words) > 2 and words[0] == "return" :][:4]) if len(words) > 1 else ""


def _parameters(instruction: str) -> tuple[str, ...]:
    """One or as many as the instruction counts, named after what they hold."""
    if counted := _COUNTED.search(instruction):
        return ("first", "second", "third")[
            : 2 if counted[1].lower() in ("two", "both", "zwei", "zweier", "beide") else 3
        ]
    if part := _PART_OF.search(instruction):
        held = "items" if part[4].lower() in ("list", "liste", "array") else "text"
        return held, next(
            name for name, word in zip(("letter", "word", "item"), part.groups()[:3], strict=True) if word
        )
    return (next((name for name, words in _HELD if words.search(instruction)), "x"),)


def asked_task(
    instruction: str, answer: AnswerKind | None, settings: TasksConfig, dialogue: Dialogue | None = None
) -> Task:
    """A task of its own id.

    Args:
        answer: whether a program or a text is wanted; None is what is configured (`tasks.answer`).
        dialogue: the conversation in which it was said, if it was.

    Raises:
        UserError: the instruction is empty, or `answer` something else.
        TypeError: the instruction is no text.
    """
    if not isinstance(instruction, str):
        raise TypeError(f"the instruction is a text, not {type(instruction).__name__}")
    if not instruction.strip():
        raise UserError("the instruction is empty; say what is to be done")
    if answer not in (None, "program", "text"):
        raise UserError(f"answer={answer!r}: it is either program or text")
    kind = answer or settings.answer
    program = asks_for_program(instruction) if kind == "auto" else kind == "program"
    name, parameters = asked_function(instruction) if program else ("", ())
    return Task(
        task_id=uuid.uuid4().hex[:12],
        suite="run",
        instruct_prompt=as_utf8(instruction),
        scorer=UNIT_TESTS if program else EXACT,
        dialogue=dialogue,
        parameters=parameters,
        **({"entry_point": name} if name else {}),
    )
