"""A reply that comes piece by piece from an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from pydantic_core import from_json

from orchestai.errors import InfrastructureError
from orchestai.workers.api_faults import PassingError, fault_of_body
from orchestai.workers.generation import Hear

_DONE = b"[DONE]"


async def gather_pieces(events: AsyncIterator[bytes], hear: Hear) -> dict[str, Any]:
    """Tell the pieces of a reply as they come, and give the reply as if it had come whole.

    Args:
        events: `chat.completion.chunk` objects, as JSON.

    Raises:
        PassingError: the line broke, or the server failed, before there was a piece; another try may help.
        InfrastructureError: the same after the first piece, which cannot be taken back.
    """
    reply: dict[str, Any] = {}
    texts: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    finish_reason = None
    try:
        async for event in events:
            if event == _DONE:
                break
            chunk = from_json(event)
            if chunk.get("error"):
                raise fault_of_body(chunk["error"])
            reply |= {name: chunk[name] for name in ("usage", "model") if chunk.get(name)}
            for choice in (chunk.get("choices") or ())[:1]:
                finish_reason = choice.get("finish_reason") or finish_reason
                delta = choice.get("delta") or {}
                _add_calls(calls, delta.get("tool_calls") or ())
                if text := delta.get("content"):
                    texts.append(text)
                    hear(text)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise _told(PassingError("bad_response", f"not a stream of an answer: {error}"), texts) from error
    except PassingError as fault:
        raise _told(fault, texts) from fault
    if texts and finish_reason in (None, "error"):
        raise InfrastructureError("bad_response", "the reply broke off: the stream ended before it was whole")
    message = {"content": "".join(texts), "tool_calls": [calls[place] for place in sorted(calls)] or None}
    return {**reply, "choices": [{"message": message, "finish_reason": finish_reason}]}


def _told(fault: PassingError, texts: list[str]) -> InfrastructureError:
    """The fault, which passes only where nothing was told."""
    return InfrastructureError(fault.kind, f"{fault}, after a part of the reply had come") if texts else fault


def _add_calls(calls: dict[int, dict[str, Any]], deltas: Iterable[dict[str, Any]]) -> None:
    """Put the pieces of calls of tools together, by their index."""
    for delta in deltas:
        call = calls.setdefault(delta.get("index", 0), {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = delta.get("id") or call["id"]
        for name, piece in (delta.get("function") or {}).items():
            if name in call["function"] and piece:
                call["function"][name] += piece
