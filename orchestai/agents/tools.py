"""Tools that roles call in words until they answer: search, Python, a calculator, and any function of a user's.

Whatever a tool does, the role reads it in words of bounded length.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformers.utils import get_json_schema
from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

from orchestai.agents.conversation import Act, Conversation
from orchestai.agents.search_index import Passage, SearchFunction, SearchIndex
from orchestai.errors import InfrastructureError, UserError
from orchestai.plugins import find_object
from orchestai.sandbox import Program, Sandbox
from orchestai.tasks.programs import unfenced
from orchestai.text.spoken import spoken
from orchestai.threads import in_thread
from orchestai.workers.tools.functions import calculate


class CallFailedError(Exception):
    """A call did not do what it was made for, such as a program that raises; the role reads the message as it is."""


class Tool(Protocol):
    """Something that a role may call; many calls may be in flight.

    Attributes:
        name: letters, digits and underscores.
        description: what it does, for the model.
        parameters: JSON schema of its arguments, an `object`.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    async def __call__(self, *args: Any, **arguments: Any) -> Any:
        """What it found, for the model: text, bytes, or what `str` makes text of. It is called with keywords alone.

        Raises:
            InfrastructureError: the tool itself is out of order; the attempt becomes unscorable.
            CallFailedError: the call came to nothing; the message is its result.
            Exception: anything else is what the call led to, and the role reads its kind and message.
        """
        ...


class FunctionTool:
    """A function as a tool. One that is not a coroutine runs in a thread of its own, so that it stalls nothing.

    Args:
        function: with type hints and a Google-style docstring, from which the model learns what it does.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            schema = get_json_schema(function)["function"]
        except (DocstringParsingException, TypeHintParsingException) as error:
            raise UserError(f"tool {getattr(function, '__name__', function)!r}: {error}") from error
        self.name: str = schema["name"]
        self.description: str = schema["description"]
        self.parameters: dict[str, Any] = schema["parameters"]
        self._function = function

    @classmethod
    def find(cls, name: str) -> FunctionTool:
        """The tool made of `module:function`; the module may lie in the working directory."""
        if ":" not in name:
            raise UserError(f"no tool {name!r}; there are search, python and calculator, or write module:function")
        try:
            return cls(find_object(name))
        except (ImportError, AttributeError) as error:
            raise UserError(f"tool {name!r} cannot be imported: {error}") from error

    async def __call__(self, **arguments: Any) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**arguments)
        return await in_thread(lambda: self._function(**arguments))


def _one_text(name: str, description: str) -> dict[str, Any]:
    """The schema of a tool whose only argument is a text."""
    properties = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name]}


class Calculator:
    """Works out an expression; nothing but numbers, brackets and + - * / // % ** is known."""

    name = "calculator"
    description = "Works out an arithmetic expression, such as (3 + 4) * 2 ** 5."
    parameters = _one_text("expression", "The expression.")

    async def __call__(self, expression: str) -> str:
        return str(calculate(expression))


_RUN = """\
import ast

def run():
    body = ast.parse({code!r}).body
    shown = [node for node in body[-1:] if isinstance(node, ast.Expr)]
    names = {{"__name__": "__main__"}}
    exec(compile(ast.Module(body[: len(body) - len(shown)], []), "<program>", "exec"), names)
    exec(compile(ast.Interactive(shown), "<program>", "single"), names)
"""
_TEST = """\
import unittest

class Output(unittest.TestCase):
    def test_output(self):
        run()
"""


class Python:
    """Runs programs within the sandbox's limits. Nothing is kept from one call to the next."""

    name = "python"
    description = "Runs a Python program, and gives what it prints and the value of its last line."
    parameters = _one_text("code", "The program.")

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, code: str) -> str:
        """What the program printed.

        Raises:
            CallFailedError: it printed nothing, or did not end well; the message says how, after what it printed.
            InfrastructureError: the sandbox could not run it.
        """
        report = await self._sandbox.arun(Program(_RUN.format(code=unfenced(code)), _TEST, "run", "sealed"))
        if report.status in ("infra_error", "broken", "refused"):
            raise InfrastructureError("sandbox", f"sandbox: {report.status}: {report.reason}")
        (test,) = report.tests
        printed = test.output.rstrip("\n")
        if test.outcome != "passed":
            ending = f"{test.outcome}: {test.message or report.reason}"
            raise CallFailedError("\n".join(part for part in (printed, ending) if part))
        if not printed:
            raise CallFailedError("(nothing was printed)")
        return printed


class Search:
    """Finds passages.

    Args:
        k: how many are shown.
        passage_chars: characters shown of each.
    """

    name = "search"
    description = "Searches a collection of texts, and gives the passages that fit the query best."
    parameters = _one_text("query", "Words to search for.")

    def __init__(self, index: SearchIndex | SearchFunction, *, k: int = 3, passage_chars: int = 500) -> None:
        self._index = index
        self._k = k
        self._passage_chars = passage_chars

    async def __call__(self, query: str) -> str:
        """The passages, each with its number and title on a line of their own.

        Raises:
            CallFailedError: no passage shares a word with the query.
        """
        found: list[Passage] = await in_thread(lambda: self._index.search(query, self._k))
        shown = [f"[{passage.id}] {passage.title}\n{passage.text[: self._passage_chars]}" for passage in found]
        if not shown:
            raise CallFailedError("nothing was found")
        return "\n\n".join(shown)


_TOOLS = """\
# Tools

You may call these functions:
<tools>
{listed}
</tools>

To call one, write a JSON object with its name and arguments within <tool_call></tool_call> tags, and end your turn:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>{short}
The next message is the result."""


@dataclass(frozen=True)
class ToolCall:
    """One call that a model wrote.

    Where it cannot be read, `error` says why, and `name` is empty; `short` is whether its own tag called it.
    """

    name: str = ""
    arguments: dict[str, Any] | None = None
    error: str = ""
    short: bool = False


def describe(tools: Sequence[Tool]) -> str:
    """What a model needs to know to call these, for its system message."""
    listed = "\n".join(
        json.dumps(
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
        )
        for tool in tools
    )
    short = "".join(f"\nOr write <{tool.name}>{name}</{tool.name}>." for tool in tools if (name := _only(tool)))
    return _TOOLS.format(listed=listed, short=short)


def find_calls(text: str, tools: Sequence[Tool]) -> list[ToolCall]:
    """The calls in what a model wrote, in their order; those that it only thought about are none."""
    only = {tool.name: name for tool in tools if (name := _only(tool))}
    opening = re.compile(f"<({'|'.join(map(re.escape, ['tool_call', *only]))})>")
    calls: list[ToolCall] = []
    said, position = spoken(text), 0
    unclosed: set[str] = set()  # so that each end is sought in vain once
    while (begin := opening.search(said, position)) is not None:
        name, position = begin[1], begin.end()
        end = -1 if name in unclosed else said.find(f"</{name}>", position)
        if end < 0:
            unclosed.add(name)
            continue
        content, position = said[position:end], end + len(f"</{name}>")
        short = None if name == "tool_call" else ToolCall(name, {only[name]: content.strip()}, short=True)
        calls.append(short or _read(content))
    return calls


def _read(text: str) -> ToolCall:
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        return ToolCall(error=f"not JSON: {error}")
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ToolCall(error="a call is a JSON object with a name and arguments")
    arguments = call.get("arguments", call.get("parameters", {}))
    if not isinstance(arguments, dict):
        return ToolCall(error="the arguments of a call are a JSON object")
    return ToolCall(call["name"], arguments)


def _only(tool: Tool) -> str:
    """Name of the one argument that a tool needs; empty where it needs none or several."""
    required = tool.parameters.get("required", [])
    return str(required[0]) if len(required) == 1 else ""


MAX_CHARS = 2000
"""Most characters of a result that a role reads."""


@dataclass(frozen=True)
class ToolResult:
    """What came of a call.

    Attributes:
        text: what the role reads.
        failed: whether the call came to nothing: an error, a program that raises, a search that finds nothing.
    """

    call: ToolCall
    text: str
    failed: bool


async def use_tools(
    conversation: Conversation,
    tools: Sequence[Tool],
    *,
    max_calls: int,
    timeout_s: float = 30.0,
    max_chars: int = MAX_CHARS,
    describes: bool = True,
    observe: Callable[[Act, Sequence[ToolResult]], None] | None = None,
) -> Act:
    """Let a role act, and tell it what its calls gave, until it acts without a call or has no call left.

    The calls of one act run at the same time; each result is a message of the speaker `tool`. An error, an unknown
    tool, a call that cannot be read and one that takes too long are results too.

    Args:
        max_calls: calls that are run; the act after the last of them is the answer, whatever it says.
        timeout_s: seconds for one call; more than a tool's own limit and its queue take.
        describes: tell the role of the tools, once, at the end of its system message.
        observe: told every act with calls and what these gave, to reward it.

    Returns:
        The last act.

    Raises:
        BudgetExceededError, InfrastructureError: as `Conversation.act`, or a tool is out of order.
    """
    description, messages = describe(tools), conversation.messages
    if describes and not any(description in message["content"] for message in messages):
        # Messages that the role has answered stay as they are; then it is told by the user.
        if conversation.acts:
            conversation.tell(description)
        elif messages and messages[0]["role"] == "system":
            messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{description}"}
        else:
            messages.insert(0, {"role": "system", "content": description})
    left = max_calls
    while True:
        act = await conversation.act()
        calls = find_calls(act.text, tools)
        if not calls or not left:
            return act
        running, refused = calls[:left], calls[left:]
        left -= len(running)
        with conversation.budget.calling():
            results = [*await asyncio.gather(*(_call(call, tools, timeout_s, max_chars) for call in running))]
        if refused:
            results.append(ToolResult(refused[0], f"error: no call is left for {len(refused)} more", failed=True))
        if observe is not None:
            observe(act, results)
        for result in results:
            conversation.tell(result.text, "tool")


async def _call(call: ToolCall, tools: Sequence[Tool], timeout_s: float, max_chars: int) -> ToolResult:
    def failed(reason: str) -> ToolResult:
        return ToolResult(call, readable(f"error: {reason}", max_chars), failed=True)

    if call.error:
        return failed(call.error)
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return failed(f"there is no tool {call.name[:40]!r}, but {', '.join(tool.name for tool in tools)}")

    async def guarded() -> tuple[str, BaseException | None]:
        try:
            return readable(await tool(**(call.arguments or {})), max_chars), None
        except (Exception, SystemExit) as error:
            return "", error

    work = asyncio.ensure_future(guarded())
    try:
        # Not wait_for, which waits for a cancelled tool to end.
        await asyncio.wait({work}, timeout=timeout_s)
        if not work.done():
            return failed(f"{tool.name} took longer than {timeout_s:g} s")
    finally:
        work.cancel()
    text, error = work.result()
    if isinstance(error, InfrastructureError):
        raise error
    if isinstance(error, CallFailedError):
        return ToolResult(call, readable(error, max_chars), failed=True)
    if error is not None:
        return failed(f"{type(error).__name__}: {error}")
    return ToolResult(call, text, failed=False)


def readable(value: Any, max_chars: int) -> str:
    """A result as text that every tokenizer takes: without control characters and broken surrogates, cut to length."""
    text = value.decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)
    cut = len(text) - max_chars
    kept = "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") and c not in "\n\t" else c
        for c in text[:max_chars].replace("\r\n", "\n")
    )
    return f"{kept}\n... ({cut} more characters)" if cut > 0 else kept
