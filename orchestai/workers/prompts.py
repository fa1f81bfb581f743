"""How a language model is asked for a subtask, and how its reply becomes an answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from orchestai.tasks.examples import Example
from orchestai.workers import few_shot, source
from orchestai.workers.base import Request, Signature
from orchestai.workers.generation import Prompt

_INDENT = "   "
"""Start of the body's first line: tokenisers join the indentation's last space to the word that follows it."""
_FENCE = "```python\n"
_SYSTEM = "You write short, correct Python functions."
_TRAILING_EXAMPLE = re.compile(r"\s*\([^()`]*`.*\)\s*$", re.DOTALL)
_END_OF_FUNCTION = tuple(
    f"\n{start}"
    for start in ("```", "def ", "class ", "@", "#", "if ", "for ", "print", "assert", "import ", "from ", ">>>", '"""')
)


class Strategy(Protocol):
    """Turns a request into a prompt and the reply into an answer. `stop` are the strings that end a reply."""

    @property
    def stop(self) -> tuple[str, ...]: ...

    def prompt(self, request: Request) -> Prompt: ...

    def answer(self, request: Request, reply: str) -> str: ...


@dataclass(frozen=True)
class Complete:
    """The reply begins with the function's head; the model writes the body. `shots` come before, as earlier turns.

    Where text is wanted instead of a function, this is `Chat`.
    """

    shots: tuple[few_shot.Shot, ...] = ()
    stop: tuple[str, ...] = _END_OF_FUNCTION

    def prompt(self, request: Request) -> Prompt:
        if request.signature is None:
            return Chat().prompt(request)
        turns = []
        for shot in self.shots:
            head = function_head(shot.signature, shot.instruction, (shot.example,))
            turns += [("user", _question(shot.signature, shot.instruction))]
            turns += [("assistant", f"{_FENCE}{head}    {shot.body}\n```")]
        turns.append(("user", _question(request.signature, without_example(request.instruction))))
        return Prompt(tuple(turns), _FENCE + _head(request, request.signature) + _INDENT)

    def answer(self, request: Request, reply: str) -> str:
        if request.signature is None:
            return reply.strip()
        whole = source.fenced(reply)
        if (
            whole is not None and f"def {request.signature.name}" in whole
        ):  # the server did not take up the reply's start
            return source.with_imports(source.longest_prefix("", whole))
        return source.with_imports(source.longest_prefix(_head(request, request.signature), _INDENT + reply))


@dataclass(frozen=True)
class Chat:
    """A plain question; the code is taken from the reply's fence. The role instruction becomes the system message."""

    stop: tuple[str, ...] = ()

    def prompt(self, request: Request) -> Prompt:
        system = request.role or (_SYSTEM if request.signature else "")
        parts = [f"Input from step {name}:\n{text}" for name, text in request.inputs.items()]
        if request.head:
            parts.append(
                f"Complete this Python program. Answer with the whole program.\n\n```python\n{request.head}\n```"
            )
        elif request.signature:
            examples = "".join(f"\n{_call(request.signature, example)}" for example in request.examples)
            examples = f"\n\nExamples:{examples}" if examples else ""
            parts.append(
                f"{_question(request.signature, request.instruction)}{examples}\n\nAnswer with the code alone."
            )
        else:
            parts.append(request.instruction)
        messages = [("system", system)] if system else []
        return Prompt((*messages, ("user", "\n\n".join(parts))))

    def answer(self, request: Request, reply: str) -> str:
        if request.signature is None:
            return reply.strip()
        code = source.fenced(reply)
        code = source.longest_prefix("", reply if code is None else code)
        return source.with_imports(source.named(code, request.signature.name))


def strategy(name: Literal["direct", "few_shot", "chat"], examples: str | None) -> Strategy:
    """The strategy of a worker's configuration; raises `UserError` for an unknown set of worked examples."""
    if name == "chat":
        return Chat()
    return Complete(few_shot.shots(examples or "general") if name == "few_shot" else ())


def function_head(signature: Signature, instruction: str, examples: Sequence[Example]) -> str:
    """`def` line, with types as the first example shows them, and a docstring with the examples as doctests."""
    text = without_example(instruction).rstrip(".")
    lines = [_definition(signature, examples), f'    """{text[:1].upper()}{text[1:]}.']
    if examples:
        lines += ["", *(f"    >>> {_call(signature, example, separator=chr(10) + '    ')}" for example in examples)]
    return "\n".join([*lines, '    """', ""])


def without_example(instruction: str) -> str:
    """The instruction without the example in brackets at its end."""
    return _TRAILING_EXAMPLE.sub("", instruction)


def _head(request: Request, signature: Signature) -> str:
    if request.head:
        return request.head.rstrip() + "\n"
    head = function_head(signature, request.instruction, request.examples)
    return head if source.parses(head) else function_head(signature, _harmless(request.instruction), ())


def _harmless(instruction: str) -> str:
    return instruction.replace("\\", "\\\\").replace('"""', "'''")


def _definition(signature: Signature, examples: Sequence[Example]) -> str:
    types = [_type(arg) for arg in examples[0].args] if examples else []
    if len(types) != len(signature.parameters) or not all([*types, _type(examples[0].result)]):
        return f"def {signature}:"
    parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(signature.parameters, types, strict=True))
    return f"def {signature.name}({parameters}) -> {_type(examples[0].result)}:"


def _type(literal: str) -> str:
    """Type of a literal as an annotation; empty where it is not plain."""
    value = ast.literal_eval(literal)
    if isinstance(value, list):
        inner = {type(item).__name__ for item in value}
        return f"list[{inner.pop()}]" if len(inner) == 1 else "list"
    if isinstance(value, dict):
        inner = {f"{type(key).__name__}, {type(item).__name__}" for key, item in value.items()}
        return f"dict[{inner.pop()}]" if len(inner) == 1 else "dict"
    return "" if value is None else type(value).__name__


def _call(signature: Signature, example: Example, separator: str = " == ") -> str:
    return f"{signature.name}({', '.join(example.args)}){separator}{example.result}"


def _question(signature: Signature, instruction: str) -> str:
    return f"Write the Python function `{signature}`: {instruction}"
