"""Runs as replies of `/v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestai.answering import Event, RunResult
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import AnswerPiece, AnswerReady
from orchestai.serving.api.errors import ApiError
from orchestai.serving.api.replies.accounting import summary, total_tokens, usage_fields
from orchestai.serving.api.replies.event_stream import server_sent
from orchestai.serving.api.requests.common import Asked, chat_calls


def chat_completion(result: RunResult, model: str) -> dict[str, Any]:
    """The reply that is no stream."""
    calls = result.execution.tool_calls
    message: dict[str, Any] = {"role": "assistant", "content": result.answer, "refusal": None}
    if calls:
        own = chat_calls(calls, result.receipt.run_id)
        message |= {"content": result.answer or None, "tool_calls": own}
    return {
        "id": result.receipt.run_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(result)}],
        "usage": chat_usage(result.receipt),
        "orchestai": summary(result.receipt),
    }


def finish_reason(result: RunResult) -> str:
    """`length` where the deadline, or the end of the tokens, came before the answer was whole."""
    if result.execution.tool_calls:
        return "tool_calls"
    return "stop" if is_whole(result) else "length"


def is_whole(result: RunResult) -> bool:
    """Whether nothing came before the end of the answer."""
    return result.receipt.status == "complete" and not result.execution.truncated


def chat_usage(receipt: Receipt) -> dict[str, Any]:
    """Tokens of planner and workers together, and apart."""
    read, written = total_tokens(receipt)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        **usage_fields(receipt),
    }


_DONE = b"data: [DONE]\n\n"


class ChatChunks:
    """Chunks of one stream.

    Where `orchestai.events` asks for them, what happens comes in chunks without choices, which clients pass over.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._created = int(time.time())
        self.told = ""

    def opening(self) -> Iterator[bytes]:
        yield self._delta({"role": "assistant", "content": ""})

    def event(self, event: Event) -> Iterator[bytes]:
        if isinstance(event, AnswerPiece):
            self.told += event.text
            yield self._delta({"content": event.text})
        elif self._asked.extension.events and not isinstance(event, AnswerReady):
            yield self._chunk([], orchestai=event.model_dump(mode="json"))

    def ending(self, result: RunResult) -> Iterator[bytes]:
        if rest := untold(result.answer, self.told):
            yield self._delta({"content": rest})
        if calls := result.execution.tool_calls:
            yield self._delta({"tool_calls": chat_calls(calls, self._asked.run_id, indexed=True)})
        yield self._delta({}, finish_reason(result), orchestai=summary(result.receipt))
        if self._asked.include_usage:
            yield self._chunk([], usage=chat_usage(result.receipt))
        yield _DONE

    def failure(self, error: ApiError) -> Iterator[bytes]:
        yield server_sent(error.body())

    def _delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk([choice], **more)

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {"id": self._asked.run_id, "object": "chat.completion.chunk", "created": self._created}
        usage = {"usage": None} if self._asked.include_usage else {}
        return server_sent({**chunk, "model": self._asked.model, "choices": choices, **usage, **more})


def untold(answer: str, told: str) -> str:
    """What is left to tell of an answer.

    Raises:
        ApiError: another worker's answer was told before, which broke off.
    """
    if answer and told.endswith(answer):  # before it, thoughts were told whose beginning the server did not send
        return ""
    if not answer.startswith(told):
        raise ApiError(
            502, "worker_broke_off", "a worker broke off after a part of its answer was sent, and another one answered"
        )
    return answer[len(told) :]
