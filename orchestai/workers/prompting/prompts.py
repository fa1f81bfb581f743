"""How a language model is asked for a subtask, and how its reply becomes an answer."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from orchestai.errors import UserError
from orchestai.tasks import program_source as source
from orchestai.tasks.programs import programs
from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_literal
from orchestai.workers.base import Request, Signature
from orchestai.workers.generation import Prompt

if TYPE_CHECKING:
    from orchestai.workers.prompting.template import RequestTemplate


_NOUNS = {
    "text": "the text",
    "number": "the number",
    "numbers": "the list",
    "words": "the list",
    "counts": "the dictionary",
    "day": "the date",
}
_SMALL_WORDS = frozenset(["it", "its", "the", "of", "a", "an", "each", "to", "into", "from"])
_WORDS_IN_NAME = 4
_LONGEST_STEP = 200
"""Longer instructions (a whole task) keep the function's name, their own words and the examples among them."""
_WISH = re.compile(
    r"^(?:\w+ ){1,6}(?:\w+-)?(?:function|funktion)(?: (?:called |named |namens )?\W?\w+\W?(?:\([\w, ]*\))?)??,? "
    r"(?:that|which|to|die) ",
    re.IGNORECASE,
)
"""What stands before the words that say what the function does."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_KEPT = 4096
"""Heads and programs in memory: training and evaluation read the same reply again and again."""
_EXAMPLE = re.compile(r"\([^()`]*`")


@dataclass(frozen=True)
class Head:
    """Where a model begins.

    Attributes:
        name: of the function; not always the one that is wanted.
        parameters: their names.
        instruction: in words, without its example; empty where only the docstring should say it.
        code: `def` line and docstring, ending in a newline.
    """

    name: str
    parameters: tuple[str, ...]
    instruction: str
    code: str


@lru_cache(maxsize=_KEPT)
def make_head(signature: Signature, instruction: str, examples: tuple[Example, ...]) -> Head:
    """The head for a subtask with these visible examples; without usable ones, the bare signature and docstring."""
    words = _WISH.sub("", without_example(instruction).rstrip("."))
    kinds = [_kind(arg) for arg in examples[0].args] if examples else []
    if len(kinds) != len(signature.parameters) or len(words) > _LONGEST_STEP or "" in kinds:
        shown = () if len(words) > _LONGEST_STEP else examples
        return Head(signature.name, signature.parameters, "", _code(signature.name, signature.parameters, words, shown))
    distinct = len(set(kinds)) == len(kinds)
    parameters = tuple(kinds) if distinct else tuple(f"{kind}{i + 1}" for i, kind in enumerate(kinds))
    if len(kinds) == 2 and not distinct:
        parameters = ("first", "second")
    if len(kinds) == 1:
        noun = _NOUNS[kinds[0]]
        words = re.sub(r"\bit\b", noun, re.sub(r"\bits\b", f"{noun}'s", words))
    kept = [word for word in re.findall(r"[a-z]{2,}", words.lower()) if word not in _SMALL_WORDS]
    name = "_".join(kept[:_WORDS_IN_NAME])
    name = signature.name if not name.isidentifier() or keyword.iskeyword(name) else name
    return Head(name, parameters, words, _code(name, parameters, words, examples))


def without_example(instruction: str) -> str:
    """The instruction without the example in brackets at its end."""
    stripped = instruction.rstrip()
    begin = _EXAMPLE.search(stripped) if stripped.endswith(")") else None
    return stripped[: begin.start()].rstrip() if begin else instruction


def call(name: str, example: Example) -> str:
    return f"{name}({', '.join(example.args)})"


def _code(name: str, parameters: Sequence[str], words: str, examples: Sequence[Example]) -> str:
    types = [_annotation(arg) for arg in examples[0].args] if examples else []
    result = _annotation(examples[0].result) if examples else ""
    if len(types) == len(parameters) and result and all(types):
        typed = ", ".join(f"{parameter}: {kind}" for parameter, kind in zip(parameters, types, strict=True))
        definition = f"def {name}({typed}) -> {result}:"
    else:
        definition = f"def {name}({', '.join(parameters)}):"
    text = f"{words[:1].upper()}{words[1:]}."
    if examples:
        text += "\n"
    for example in examples:
        text += f"\n    >>> {call(name, example)}\n    {example.result}"
    quoted = text.replace("\\", "\\\\").replace('"""', "'''").replace("\0", " ")
    return f'{definition}\n    """{quoted}\n    """\n'


def _kind(literal: str) -> str:
    value = parse_literal(literal)
    if isinstance(value, str):
        return "day" if _DATE.fullmatch(value) else "text"
    if isinstance(value, int):
        return "number"
    if isinstance(value, dict):
        return "counts"
    if isinstance(value, list):
        return "words" if all(isinstance(item, str) for item in value) else "numbers"
    return ""


def _annotation(literal: str) -> str:
    """Type of a literal as an annotation; empty where it is not plain."""
    value = parse_literal(literal)
    if isinstance(value, list):
        inner = {type(item).__name__ for item in value}
        return f"list[{inner.pop()}]" if len(inner) == 1 else "list"
    if isinstance(value, dict):
        inner = {f"{type(key).__name__}, {type(item).__name__}" for key, item in value.items()}
        return f"dict[{inner.pop()}]" if len(inner) == 1 else "dict"
    return "" if value is None else type(value).__name__


@dataclass(frozen=True)
class Shot:
    """A question, its visible example and the body that answers it."""

    instruction: str
    example: Example
    body: str

    @property
    def signature(self) -> Signature:
        return Signature("step", ("x",) if len(self.example.args) == 1 else ("a", "b"))


def _shot(instruction: str, args: str | tuple[str, ...], result: str, body: str) -> Shot:
    return Shot(instruction, Example((args,) if isinstance(args, str) else args, result), body)


SHOTS = (
    _shot("replace every comma in it with a semicolon", "'a,b'", "'a;b'", "return text.replace(',', ';')"),
    _shot("keep its multiples of 5", "[3, 10, 25]", "[10, 25]", "return [n for n in numbers if n % 5 == 0]"),
    _shot("subtract the number from each item", ("[8, 5]", "2"), "[6, 3]", "return [n - number for n in numbers]"),
    _shot("multiply it by 4 and subtract 3", "5", "17", "return number * 4 - 3"),
    _shot("add 1 to each of its values", "{'a': 1}", "{'a': 2}", "return {k: v + 1 for k, v in counts.items()}"),
    _shot("put the second text in brackets after the first", ("'a'", "'b'"), "'a(b)'", "return f'{first}({second})'"),
    _shot("find its shortest word", "['fig', 'to']", "'to'", "return min(words, key=len)"),
    _shot(
        "move the date two weeks back",
        "'2024-03-20'",
        "'2024-03-06'",
        "return (date.fromisoformat(day) - timedelta(weeks=2)).isoformat()",
    ),
)
"""The worked examples of `few_shot`; bodies use the argument names that the head gives them."""

_INDENT = "   "
"""Start of the body's first line: tokenizers join the indentation's last space to the word that follows it."""
_FENCE = "```python\n"
_SYSTEM = "You write short, correct Python functions."
_END_OF_FUNCTION = tuple(
    f"\n{start}"
    for start in ("```", "def ", "class ", "@", "#", "if ", "for ", "print", "assert", "import ", "from ", ">>>", '"""')
)


class Strategy(Protocol):
    """Turns a request into a prompt and the reply into an answer. `stop` are the strings that end a reply."""

    @property
    def stop(self) -> tuple[str, ...]: ...

    def prompt(self, request: Request) -> Prompt: ...

    def answers(self, request: Request, reply: str) -> list[str]:
        """What the reply may mean, the likeliest first; more than one only where it holds several programs."""
        ...


@dataclass(frozen=True)
class Complete:
    """The reply begins with the function's head; the model writes the body. `shots` come before, as earlier turns.

    Where text is wanted instead of a function, this is `Chat`; the last step of several is asked as `Chat` asks it.
    """

    shots: tuple[Shot, ...] = ()
    stop: tuple[str, ...] = _END_OF_FUNCTION

    def prompt(self, request: Request) -> Prompt:
        if request.signature is None:
            return Chat().prompt(request)
        turns = []
        for shot in self.shots:
            head = make_head(shot.signature, shot.instruction, (shot.example,))
            turns += [("user", _question(head.name, head.instruction))]
            turns += [("assistant", f"{_FENCE}{head.code}    {shot.body}\n```")]
        head = _head(request, request.signature)
        if request.task:
            turns = [*_before(request, request.role), *turns, ("user", _step(request))]
        else:
            turns = [*_before(request), *turns]
            turns.append(("user", _question(head.name, head.instruction)))
        return Prompt(tuple(turns), _FENCE + head.code + _INDENT)

    def answers(self, request: Request, reply: str) -> list[str]:
        if request.signature is None:
            return [reply.strip()]
        head = _head(request, request.signature)
        wholes = [code for code in programs(reply, head.name) if f"def {head.name}" in code]
        if wholes:  # the server did not take up the reply's start
            return [_usable("", code, request.signature) for code in wholes]
        return [_usable(head.code, _INDENT + reply, request.signature)]


@dataclass(frozen=True)
class Chat:
    """A plain question; the code is taken from the reply. The role instruction becomes the system message."""

    stop: tuple[str, ...] = ()

    def prompt(self, request: Request) -> Prompt:
        if request.task or request.signature is None:
            question = _step(request)
        elif request.head:
            question = f"Complete this Python program. Answer with the whole program.\n\n```python\n{request.head}\n```"
        else:
            examples = "".join(
                f"\n{call(request.signature.name, example)} == {example.result}" for example in request.examples
            )
            examples = f"\n\nExamples:{examples}" if examples else ""
            asked = _question(str(request.signature), request.instruction)
            question = f"{asked}{examples}\n\nAnswer with the code alone."
        system = request.role or (_SYSTEM if request.signature else "")
        return Prompt((*_before(request, system), ("user", question)))

    def answers(self, request: Request, reply: str) -> list[str]:
        if request.signature is None:
            return [reply.strip()]
        found = programs(reply, request.signature.name, len(request.signature.parameters))
        return [_usable("", code, request.signature) for code in found or [reply]]


@dataclass(frozen=True)
class Templated:
    """Messages as a template of the user's writes them; the reply is read as `Chat` reads it."""

    template: RequestTemplate
    stop: tuple[str, ...] = ()

    @classmethod
    def of_file(cls, path: Path) -> Templated:
        """The strategy of a template file.

        Raises:
            UserError: it cannot be read, or is no template of messages.
        """
        from orchestai.workers.prompting.template import RequestTemplate

        try:
            source = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"template: cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
        template = RequestTemplate(source, f"template {path}")
        if template.sections and ("user" not in template.sections or template.sections - {"system", "user"}):
            raise UserError(
                f"template {path}: has the blocks {', '.join(sorted(template.sections))}; write a block `user`, with a "
                "block `system` if you like, or none, and all of the file is the user's message"
            )
        return cls(template)

    def prompt(self, request: Request) -> Prompt:
        messages = self.template.render_sections(request)
        return Prompt((*_before(request, messages.get("system", "")), ("user", messages["user"])))

    def answers(self, request: Request, reply: str) -> list[str]:
        return Chat().answers(request, reply)


def strategy(name: Literal["direct", "few_shot", "chat", "template"], template: Path | None = None) -> Strategy:
    """The strategy of a worker's configuration.

    Raises:
        UserError: the template is none.
    """
    if template is not None:
        return Templated.of_file(template)
    if name == "chat":
        return Chat()
    return Complete(SHOTS if name == "few_shot" else ())


@lru_cache(maxsize=_KEPT)
def _usable(head: str, code: str, wanted: Signature) -> str:
    """As much of a program as can be used, under the wanted name and the imports that it lacks."""
    return source.with_imports(source.named(source.longest_prefix(head, code), wanted.name))


def _before(request: Request, system: str = "") -> list[tuple[str, str]]:
    """The system message, of which chat templates take one, and what was said before the task."""
    earlier = request.dialogue.earlier if request.dialogue else ()
    texts = [system, *(message.content for message in earlier if message.role == "system")]
    text = "\n\n".join(filter(None, texts))
    said: list[tuple[str, str]] = [(message.role, message.content) for message in earlier if message.role != "system"]
    return [("system", text), *said] if text else said


def _step(request: Request) -> str:
    """One step of a task: the task, what the steps before gave, and what this one is to do.

    A message of a conversation that is answered in one step is handed on as it is.
    """
    if request.dialogue and request.instruction == request.task and not (request.inputs or request.signature):
        return request.instruction
    parts = [f"Task:\n{request.task}"] if request.task else []
    parts += [f"Result of step {name}:\n{text}" for name, text in request.inputs.items()]
    if not request.task:
        parts.append(request.instruction)
    elif request.instruction != request.task:
        parts.append(f"Your step{'' if request.signature else ', and no more'}: {request.instruction}")
    if request.signature:
        parts.append(f"Answer with the whole program, which defines `{request.signature}`, in one code block.")
    elif request.answer_format:
        parts.append(request.answer_format)
    return "\n\n".join(parts)


def _head(request: Request, signature: Signature) -> Head:
    if request.head:
        words = without_example(request.instruction)
        return Head(signature.name, signature.parameters, words, request.head.rstrip() + "\n")
    return make_head(signature, request.instruction, tuple(request.examples))


def _question(name: str, instruction: str) -> str:
    return f"Write the Python function `{name}`" + (f": {instruction}" if instruction else ".")
