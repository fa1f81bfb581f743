"""Runs as replies of `/v1/chat/completions`."""

from __future__ import annotations

import time
from typing import Any

from orchestai.answering import RunResult
from orchestai.execution.contract.receipt import Receipt
from orchestai.serving.api.replies.accounting import summary, total_tokens, usage_fields
from orchestai.serving.api.requests.tools import chat_calls


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
