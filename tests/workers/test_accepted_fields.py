"""What of a request a server refuses is left out, renamed or folded, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.errors import InfrastructureError
from orchestai.tasks.dialogue import fold_messages
from orchestai.workers.api_faults import PassingError, RefusedRequestError, fault_of_status
from orchestai.workers.base import WorkerError
from orchestai.workers.openai_api import AcceptedFields
from orchestai.workers.openai_replies import ReplyReader, read_usage

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Stop the seed stream."}],
    "temperature": 0.0,
    "max_tokens": 9,
    "seed": 1,
    "stop": ["x"],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"message": text, "type": "invalid_request_error", **more}


RENAMED = [
    message(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    ),
    message("max_tokens: Extra inputs are not permitted"),
]


def refusal(body: Any) -> RefusedRequestError:
    fault = fault_of_status(400, body, None)
    assert isinstance(fault, RefusedRequestError), fault
    return fault


def test_the_limit_of_tokens_is_renamed_and_never_left_out() -> None:
    for other in (AcceptedFields().after(refusal(body), BODY) for body in RENAMED):
        assert other is not None and other.fit(BODY)["max_completion_tokens"] == 9  # noqa: PT018
        assert other.after(refusal(message("max_completion_tokens is not permitted")), BODY) is None


def test_the_requests_own_words_decide_nothing() -> None:
    for word in (
        *("billing", "credit balance", "insufficient funds", "payment required", "content policy", "moderation"),
        *("flagged", "prompt is too long", "context window", "maximum context length", "jinja"),
    ):
        asked = f'{{"content": "write of {word}"}}'
        for said in (f"not accepted: write of {word}", f"not accepted: 'of {word} or such'"):
            assert isinstance(fault_of_status(400, message(said), None, asked), RefusedRequestError), word


@pytest.mark.parametrize("status", [200, 400, 500, 503])
def test_a_chat_template_that_raises_refuses_a_request_whatever_the_status_is(status: int) -> None:
    said = "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant"
    fault = fault_of_status(status, message(said, code="server_error"), None)
    assert isinstance(fault, RefusedRequestError)
    first = AcceptedFields().after(fault, BODY)
    assert first == AcceptedFields(alternates=True)
    assert first.after(fault, BODY) == AcceptedFields(has_system=False, alternates=True)
    if status != 400:
        assert isinstance(fault_of_status(status, message("no memory left"), None), PassingError)
        asked = f'{{"content": "{said.casefold()}"}}'
        assert isinstance(fault_of_status(status, message(said), None, asked), PassingError), "the request's own words"


# What servers say of faults: `server_faults.jsonl` has it, and its kind (or `worker`), or what is changed for it.


def test_what_servers_say_of_a_fault_is_what_it_is() -> None:
    found = {}
    for case in map(json.loads, Path(__file__).with_name("server_faults.jsonl").read_text().splitlines()):
        fault = fault_of_status(case["status"], case["body"], None, case.get("asked", ""))
        told: Any = "worker" if isinstance(fault, WorkerError) else fault.kind
        if isinstance(fault, RefusedRequestError) and case["is"] != "bad_request":
            other = AcceptedFields().after(fault, {**BODY, "tool_choice": ""}) or AcceptedFields()
            folded = "alternates" if other.alternates else "no_system" * (not other.has_system)
            told = sorted(other.left_out) or folded or None
        found[case["case"]] = (told, case["is"])
    assert {case: both for case, both in found.items() if both[0] != both[1]} == {}


def test_the_configuration_adds_and_leaves_out() -> None:
    sent = AcceptedFields({"seed": None, "think": False}).fit(BODY)
    assert (sent["think"], "seed" in sent) == (False, False)


@pytest.mark.parametrize(("speakers", "wanted"), [("su", "u"), ("sauau", "uauau"), ("suaau", "uau"), ("s", "u")])
def test_folded_messages_alternate_and_lose_nothing(speakers: str, wanted: str) -> None:
    names = {"s": "system", "u": "user", "a": "assistant"}
    given = [{"role": names[one], "content": f"words{place}"} for place, one in enumerate(speakers)]
    folded = fold_messages(given, has_system=False, alternates=True)
    assert "".join(one["role"][0] for one in folded) == wanted
    assert all(f"words{place}" in "".join(one["content"] for one in folded) for place in range(len(speakers)))


# Replies of servers: `server_replies.jsonl` has their bodies, what is read of them (null: a fault), and what OpenAI's
# client reads (text and calls, or its error).


CASES = [json.loads(line) for line in Path(__file__).with_name("server_replies.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_every_field_is_read_as_far_as_it_can_be_and_what_is_no_reply_is_a_fault(size: int) -> None:
    for case in CASES:
        body, wanted = case["body"].encode("utf-8", "surrogatepass"), case["reads"]
        heard: list[str] = []
        reader = ReplyReader(heard.append)
        try:
            for place in range(0, len(body), size):
                reader.feed(body[place : place + size])
            reply = reader.finish()
        except InfrastructureError:
            assert wanted is None, case["case"]
            continue
        assert wanted is not None, case["case"]
        assert reply.text == "".join(heard) == wanted["text"], case["case"]
        assert [[call.name, call.arguments] for call in reply.tool_calls] == wanted["calls"], case["case"]
        if wanted["usage"] is not None:
            assert [reply.prompt_tokens, reply.completion_tokens] == wanted["usage"], case["case"]


@pytest.mark.parametrize(
    "figure", [-1, True, "n/a", "", None, [], {}, 1e12, float("nan"), float("inf"), "1e400", "-3"], ids=repr
)
def test_what_is_no_number_of_tokens_is_not_believed(figure: object) -> None:
    assert read_usage({"prompt_tokens": figure, "completion_tokens": figure})[:2] == (None, None)
    assert read_usage({"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": figure}) == (20, 9, 0, False)
