"""Runs as streams of `/v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestai.answering import Event, RunResult
from orchestai.execution.events import AnswerPiece, AnswerReady
from orchestai.serving.api.errors import ApiError
from orchestai.serving.api.replies.accounting import summary
from orchestai.serving.api.replies.chat import chat_usage, finish_reason
from orchestai.serving.api.replies.event_stream import server_sent
from orchestai.serving.api.requests.asked import Asked
from orchestai.serving.api.requests.tools import chat_calls

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
    if not answer.startswith(told):
        raise ApiError(
            502, "worker_broke_off", "a worker broke off after a part of its answer was sent, and another one answered"
        )
    return answer[len(told) :]
