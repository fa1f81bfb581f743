"""Replies of servers: `server_replies.jsonl` has their bodies, what is read of them (null: a fault), and what OpenAI's
client reads (text and calls, or its error)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestai.errors import InfrastructureError
from orchestai.workers.openai_replies import ReplyReader, read_usage

CASES = [json.loads(line) for line in Path(__file__).with_name("server_replies.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_every_field_is_read_as_far_as_it_can_be_and_what_is_no_reply_is_a_fault(case: dict, size: int) -> None:
    body, wanted = case["body"].encode("utf-8", "surrogatepass"), case["reads"]
    heard: list[str] = []
    reader = ReplyReader(heard.append)

    def read():  # type: ignore[no-untyped-def]
        for place in range(0, len(body), size):
            reader.feed(body[place : place + size])
        return reader.finish()

    if wanted is None:
        with pytest.raises(InfrastructureError):
            read()
        return
    reply = read()
    assert reply.text == "".join(heard) == wanted["text"]
    assert [[call.name, call.arguments] for call in reply.tool_calls] == wanted["calls"]
    if wanted["usage"] is not None:
        assert [reply.prompt_tokens, reply.completion_tokens] == wanted["usage"]


@pytest.mark.parametrize(
    "figure", [-1, True, "n/a", "", None, [], {}, 1e12, float("nan"), float("inf"), "1e400", "-3"], ids=repr
)
def test_what_is_no_number_of_tokens_is_not_believed(figure: object) -> None:
    assert read_usage({"prompt_tokens": figure, "completion_tokens": figure})[:2] == (None, None)
    assert read_usage({"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": figure}) == (20, 9, False)
