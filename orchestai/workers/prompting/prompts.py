"""How a language model is asked for a subtask, and how its reply becomes an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from orchestai.errors import UserError
from orchestai.sandbox import fences
from orchestai.workers.base import Request, Signature
from orchestai.workers.generation import Prompt
from orchestai.workers.prompting import source, worked_examples
from orchestai.workers.prompting.function_heads import Head, call, make_head, without_example

if TYPE_CHECKING:
    from orchestai.workers.prompting.template import RequestTemplate

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

    def answer(self, request: Request, reply: str) -> str: ...


@dataclass(frozen=True)
class Complete:
    """The reply begins with the function's head; the model writes the body. `shots` come before, as earlier turns.

    Where text is wanted instead of a function, this is `Chat`; the last step of several is asked as `Chat` asks it.

    Attributes:
        reads_task: whether the question holds the request's context.
    """

    shots: tuple[worked_examples.Shot, ...] = ()
    reads_task: bool = False
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
            turns.append(("user", _question(head.name, head.instruction) + _context(request, self.reads_task)))
        return Prompt(tuple(turns), _FENCE + head.code + _INDENT)

    def answer(self, request: Request, reply: str) -> str:
        if request.signature is None:
            return reply.strip()
        head = _head(request, request.signature)
        whole = fences.fenced(reply)
        if whole is not None and f"def {head.name}" in whole:  # the server did not take up the reply's start
            code = source.longest_prefix("", whole)
        else:
            code = source.longest_prefix(head.code, _INDENT + reply)
        return source.with_imports(source.named(code, request.signature.name))


@dataclass(frozen=True)
class Chat:
    """A plain question; the code is taken from the reply's fence. The role instruction becomes the system message."""

    reads_task: bool = False
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
            question = f"{asked}{_context(request, self.reads_task)}{examples}\n\nAnswer with the code alone."
        system = request.role or (_SYSTEM if request.signature else "")
        return Prompt((*_before(request, system), ("user", question)))

    def answer(self, request: Request, reply: str) -> str:
        if request.signature is None:
            return reply.strip()
        code = fences.fenced(reply)
        code = source.longest_prefix("", reply if code is None else code)
        return source.with_imports(source.named(code, request.signature.name))


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

    def answer(self, request: Request, reply: str) -> str:
        return Chat().answer(request, reply)


def strategy(
    name: Literal["direct", "few_shot", "chat", "template"],
    examples: str | None = None,
    template: Path | None = None,
    *,
    reads_task: bool = False,
) -> Strategy:
    """The strategy of a worker's configuration.

    Args:
        reads_task: whether questions hold the request's context.

    Raises:
        UserError: there is no such set of worked examples, or the template is none.
    """
    if template is not None:
        return Templated.of_file(template)
    if name == "chat":
        return Chat(reads_task)
    return Complete(worked_examples.shots(examples or "general") if name == "few_shot" else (), reads_task)


def _before(request: Request, system: str = "") -> list[tuple[str, str]]:
    """The system message, of which chat templates take one, and what was said before the task."""
    earlier = request.dialogue.earlier if request.dialogue else ()
    texts = [system, *(message.content for message in earlier if message.role == "system")]
    text = "\n\n".join(filter(None, texts))
    said: list[tuple[str, str]] = [(message.role, message.content) for message in earlier if message.role != "system"]
    return [("system", text), *said] if text else said


def _context(request: Request, reads_task: bool) -> str:
    return f"\n\n{request.context}" if reads_task and request.context else ""


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
    return make_head(signature, request.instruction, request.examples)


def _question(name: str, instruction: str) -> str:
    return f"Write the Python function `{name}`" + (f": {instruction}" if instruction else ".")
