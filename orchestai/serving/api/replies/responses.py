"""Runs as replies and streams of `/v1/responses`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestai.answering import Event, RunResult
from orchestai.execution.events import AnswerPiece, AnswerReady
from orchestai.serving.api.errors import ApiError
from orchestai.serving.api.replies.accounting import summary, total_tokens, usage_fields
from orchestai.serving.api.replies.chat import is_whole, untold
from orchestai.serving.api.replies.event_stream import server_sent
from orchestai.serving.api.requests.common import Asked, response_calls


def response(result: RunResult, asked: Asked, created: int | None = None) -> dict[str, Any]:
    """The reply that is no stream, and the last event of one."""
    whole = is_whole(result)
    calls = response_calls(result.execution.tool_calls, asked.run_id)
    item = _message(_name("msg", asked), result.answer, "completed" if whole else "incomplete")
    receipt = result.receipt
    read, written = total_tokens(receipt)
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
        **usage_fields(receipt),
    }
    return {
        **_begun(asked, int(time.time()) if created is None else created),
        "status": "completed" if whole else "incomplete",
        "incomplete_details": None if whole else {"reason": "max_output_tokens"},
        "completed_at": int(time.time()),
        "output": [*([item] if result.answer or not calls else []), *calls],
        "usage": usage,
        "orchestai": summary(result.receipt),
    }


def _name(kind: str, asked: Asked) -> str:
    return f"{kind}_{asked.run_id.removeprefix('run-')}"


def _begun(asked: Asked, created: int) -> dict[str, Any]:
    return {
        "id": _name("resp", asked),
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": asked.dialogue.max_new_tokens,
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": asked.dialogue.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": dict(asked.metadata),
    }


def _message(name: str, text: str, status: str) -> dict[str, Any]:
    return {"id": name, "type": "message", "role": "assistant", "status": status, "content": [_text(text)]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseEvents:
    """Events of one stream, numbered."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._created = int(time.time())
        self._number = -1
        self._told = ""
        self._is_open = False
        self._item = _name("msg", asked)

    def opening(self) -> Iterator[bytes]:
        begun = _begun(self._asked, self._created)
        yield self._sent("response.created", response=begun)
        yield self._sent("response.in_progress", response=begun)

    def event(self, event: Event) -> Iterator[bytes]:
        if isinstance(event, AnswerPiece):
            yield from self._message_opening()
            self._told += event.text
            yield self._part("response.output_text.delta", delta=event.text, logprobs=[])
        elif self._asked.extension.events and not isinstance(event, AnswerReady):
            yield self._sent(f"orchestai.{event.type}", event=event.model_dump(mode="json"))

    def ending(self, result: RunResult) -> Iterator[bytes]:
        rest = untold(result.answer, self._told)
        whole = response(result, self._asked, self._created)
        for place, item in enumerate(whole["output"]):
            if item["type"] == "function_call":
                yield from self._call(place, item)
                continue
            yield from self._message_opening()
            if rest:
                yield self._part("response.output_text.delta", delta=rest, logprobs=[])
            yield self._part("response.output_text.done", text=result.answer, logprobs=[])
            yield self._part("response.content_part.done", part=_text(result.answer))
            yield self._sent("response.output_item.done", output_index=place, item=item)
        yield self._sent(f"response.{whole['status']}", response=whole)

    def failure(self, error: ApiError) -> Iterator[bytes]:
        said = {"code": error.code, "message": error.message, "param": error.param}
        yield self._sent("error", **said, **error.body())

    def _message_opening(self) -> Iterator[bytes]:
        """Before the first piece of a message."""
        if self._is_open:
            return
        self._is_open = True
        item = _message(self._item, "", "in_progress") | {"content": []}
        yield self._sent("response.output_item.added", output_index=0, item=item)
        yield self._part("response.content_part.added", part=_text(""))

    def _call(self, place: int, item: dict[str, Any]) -> Iterator[bytes]:
        begun = item | {"arguments": "", "status": "in_progress"}
        yield self._sent("response.output_item.added", output_index=place, item=begun)
        about = {"item_id": item["id"], "output_index": place}
        yield self._sent("response.function_call_arguments.delta", **about, delta=item["arguments"])
        told = {"name": item["name"], "arguments": item["arguments"]}
        yield self._sent("response.function_call_arguments.done", **about, **told)
        yield self._sent("response.output_item.done", output_index=place, item=item)

    def _part(self, kind: str, **more: Any) -> bytes:
        return self._sent(kind, item_id=self._item, output_index=0, content_index=0, **more)

    def _sent(self, kind: str, **more: Any) -> bytes:
        self._number += 1
        return server_sent({"type": kind, "sequence_number": self._number, **more}, kind)
