"""How a model is told of its tools, and how its calls are read.

Calls are JSON between `<tool_call>` and `</tool_call>`, as Hermes and Qwen write them. A tool that needs one argument
can also be called by its name: `<search>tallest tower</search>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestai.agents.tools.tool import Tool

_THOUGHTS = "</think>"
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
    """The calls in what a model wrote, in their order; those that it only thought about (`<think>`) are none."""
    spoken = text.rpartition(_THOUGHTS)[2]
    only = {tool.name: name for tool in tools if (name := _only(tool))}
    return [
        _read(content) if name == "tool_call" else ToolCall(name, {only[name]: content.strip()}, short=True)
        for name, content in _elements(spoken, ["tool_call", *only])
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
