"""Clients' tools: as they are offered, called and answered, in OpenAI's two formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestai.serving.api.errors import invalid
from orchestai.serving.api.requests.common import refuse_others
from orchestai.tasks.dialogue import ToolCall, ToolUse

_CHOICES = ("auto", "none", "required")
_MOST_TOOLS = 128


def read_tools(tools: Sequence[Any] | None, choice: Any, *, nested: bool) -> ToolUse | None:
    """The tools of a request; None without any.

    Args:
        nested: whether a function's fields are under `function`, as in chat completions, or beside `type`.

    Raises:
        ApiError: one is no function, or the choice is none of them.
    """
    if not tools:
        if choice not in (None, "auto", "none"):
            raise invalid("tool_choice", "there are no tools to choose from")
        return None
    if len(tools) > _MOST_TOOLS:
        raise invalid("tools", f"at most {_MOST_TOOLS} tools")
    functions = [_function(tool, f"tools[{place}]", nested) for place, tool in enumerate(tools)]
    names = [function["function"]["name"] for function in functions]
    if isinstance(choice, dict):
        named = choice.get("function") if nested else choice
        if choice.get("type") != "function" or not isinstance(named, dict) or named.get("name") not in names:
            raise invalid("tool_choice", f"it names no function of tools: {', '.join(names)}")
        refuse_others(choice, ("type", "function" if nested else "name"), "tool_choice")
        if nested:
            refuse_others(named, ("name",), "tool_choice.function")
        choice = {"type": "function", "function": {"name": named["name"]}}
    elif choice not in (None, *_CHOICES):
        raise invalid("tool_choice", f"one of {', '.join(_CHOICES)}, or a function by name", "unsupported_value")
    return ToolUse(tools=json.dumps(functions), choice=json.dumps(choice or "auto"))


def _function(tool: Any, where: str, nested: bool) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function":
        raise invalid(f"{where}.type", f"{kind!r}: only functions are supported", "unsupported_value")
    if nested:
        refuse_others(tool, ("type", "function"), where)
    given = tool.get("function") if nested else {name: value for name, value in tool.items() if name != "type"}
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        raise invalid(f"{where}.name", "a function needs a name", "missing_required_parameter")
    refuse_others(given, ("name", "description", "parameters", "strict"), where)
    if not isinstance(given.get("parameters") or {}, dict):
        raise invalid(f"{where}.parameters", "a JSON schema is expected", "invalid_type")
    return {"type": "function", "function": {name: value for name, value in given.items() if value is not None}}


def call_name(run_id: str, place: int) -> str:
    """What the client calls the call by; the run is found again by it."""
    return f"call_{run_id.removeprefix('run-')}_{place}"


def run_of_call(name: str) -> str | None:
    """The run that waits for a call; None where no run of ours can."""
    kind, _, rest = name.partition("_")
    run, _, place = rest.rpartition("_")
    return f"run-{run}" if kind == "call" and run and "\0" not in run and place.isdecimal() else None


def chat_calls(calls: Iterable[ToolCall], run_id: str, *, indexed: bool = False) -> list[dict[str, Any]]:
    """Calls in the format of chat completions, `indexed` as in a stream."""
    return [
        {
            **({"index": place} if indexed else {}),
            "id": call_name(run_id, place),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for place, call in enumerate(calls)
    ]


def response_calls(calls: Iterable[ToolCall], run_id: str) -> list[dict[str, Any]]:
    """Calls as output items of a response."""
    return [
        {
            "id": f"fc_{call_name(run_id, place).removeprefix('call_')}",
            "type": "function_call",
            "status": "completed",
            "call_id": call_name(run_id, place),
            "name": call.name,
            "arguments": call.arguments,
        }
        for place, call in enumerate(calls)
    ]


def exchanged(
    calls: Sequence[ToolCall], text: str, run_id: str, results: Mapping[str, str], where: str
) -> list[dict[str, Any]]:
    """The messages that a worker reads which called tools, with its own ids of the calls.

    Args:
        where: the results are in the request.

    Raises:
        ApiError: a result is missing.
    """
    own = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": text or None, "tool_calls": own}]
    for place, call in enumerate(calls):
        name = call_name(run_id, place)
        if name not in results:
            raise invalid(where, f"the result of {name} ({call.name}) is missing; send all together")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": results[name]})
    return messages
