"""A reply that comes piece by piece from an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx2
import openai

from orchestai.errors import InfrastructureError
from orchestai.workers.api_faults import PassingError, fault_of, fault_of_body
from orchestai.workers.generation import Hear


async def gather_pieces(chunks: AsyncIterator[Any], hear: Hear) -> dict[str, Any]:
    """Tell the pieces of a reply as they come, and give the reply as if it had come whole.

    Args:
        chunks: `chat.completion.chunk` objects, as the client reads them.

    Raises:
        PassingError: the line broke, or the server failed, before there was a piece; another try may help.
        InfrastructureError: the same after the first piece, which cannot be taken back.
    """
    reply: dict[str, Any] = {}
    texts: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    finish_reason = None
    try:
        async for chunk in chunks:
            data = chunk.model_dump(exclude_unset=True)
            reply |= {name: data[name] for name in ("usage", "model", "error") if data.get(name)}
            for choice in (data.get("choices") or ())[:1]:
                finish_reason = choice.get("finish_reason") or finish_reason
                delta = choice.get("delta") or {}
                _add_calls(calls, delta.get("tool_calls") or ())
                if text := delta.get("content"):
                    texts.append(text)
                    hear(text)
    except Exception as error:
        fault = _fault(error)
        if texts and isinstance(fault, PassingError):
            raise InfrastructureError(fault.kind, f"{fault}, after a part of the reply had come") from error
        raise fault from error
    if texts and finish_reason in (None, "error"):
        raise InfrastructureError("bad_response", "the reply broke off: the stream ended before it was whole")
    message = {"content": "".join(texts), "tool_calls": [calls[place] for place in sorted(calls)] or None}
    return {**reply, "choices": [{"message": message, "finish_reason": finish_reason}]}


def _add_calls(calls: dict[int, dict[str, Any]], deltas: Iterable[dict[str, Any]]) -> None:
    """Put the pieces of calls of tools together, by their index."""
    for delta in deltas:
        call = calls.setdefault(delta.get("index", 0), {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = delta.get("id") or call["id"]
        for name, piece in (delta.get("function") or {}).items():
            if name in call["function"] and piece:
                call["function"][name] += piece


def _fault(error: Exception) -> Exception:
    if isinstance(error, openai.APIError):
        if type(error) is openai.APIError and error.body:  # told inside the stream
            return fault_of_body(error.body)
        return fault_of(error)
    if isinstance(error, httpx2.TimeoutException):
        return PassingError("timeout", "no answer in time")
    if isinstance(error, httpx2.TransportError):
        return PassingError("connection", "connection lost")
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | ValueError | AttributeError | TypeError):
        return PassingError("bad_response", f"not a stream of an answer: {error}")
    return error
