"""Lets a role call tools until it answers. Whatever a tool does, the role reads it in words of bounded length."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestai.agents.conversation import Act, Conversation
from orchestai.agents.tools.tool import CallFailedError, Tool
from orchestai.errors import InfrastructureError
from orchestai.text.spoken import spoken

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

    Attributes:
        name: of the tool; empty where `error` says that the call cannot be read.
        arguments: by name.
        error: why there is no call in what should be one; else empty.
        short: whether it was called by its name.
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
    return [
        _read(content) if name == "tool_call" else ToolCall(name, {only[name]: content.strip()}, short=True)
        for name, content in _elements(spoken(text), ["tool_call", *only])
    ]


def _elements(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each `<name>...</name>` of these names: its name and what it holds. Each end is sought in vain once."""
    opening = re.compile(f"<({'|'.join(map(re.escape, names))})>")
    position = 0
    unclosed: set[str] = set()
    while (begin := opening.search(text, position)) is not None:
        name, position = begin[1], begin.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", position)
        if end < 0:
            unclosed.add(name)
        else:
            yield name, text[position:end]
            position = end + len(f"</{name}>")


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
    if describes:
        _describe(conversation, tools)
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


def _describe(conversation: Conversation, tools: Sequence[Tool]) -> None:
    """Messages that the role has answered stay as they are; then it is told by the user."""
    description, messages = describe(tools), conversation.messages
    if any(description in message["content"] for message in messages):
        return
    if conversation.acts:
        conversation.tell(description)
    elif messages and messages[0]["role"] == "system":
        messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{description}"}
    else:
        messages.insert(0, {"role": "system", "content": description})


async def _call(call: ToolCall, tools: Sequence[Tool], timeout_s: float, max_chars: int) -> ToolResult:
    def failed(reason: str) -> ToolResult:
        return ToolResult(call, readable(f"error: {reason}", max_chars), failed=True)

    if call.error:
        return failed(call.error)
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return failed(f"there is no tool {call.name[:40]!r}, but {', '.join(tool.name for tool in tools)}")
    work = asyncio.ensure_future(_guarded(tool, call.arguments or {}, max_chars))
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


async def _guarded(tool: Tool, arguments: dict[str, Any], max_chars: int) -> tuple[str, BaseException | None]:
    try:
        return readable(await tool(**arguments), max_chars), None
    except (Exception, SystemExit) as error:
        return "", error


def readable(value: Any, max_chars: int) -> str:
    """A result as text that every tokenizer takes: without control characters and broken surrogates, cut to length."""
    text = value.decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)
    cut = len(text) - max_chars
    kept = "".join(_shown(c) for c in text[:max_chars].replace("\r\n", "\n"))
    return f"{kept}\n... ({cut} more characters)" if cut > 0 else kept


def _shown(character: str) -> str:
    strange = unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") and character not in "\n\t"
    return "\N{REPLACEMENT CHARACTER}" if strange else character
