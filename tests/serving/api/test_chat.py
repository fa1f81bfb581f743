"""`/v1/chat/completions` as clients see it: answers with receipts, contracts, and errors in OpenAI's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.models.chat_server import ChatServer, Reply, chat
from support.models.chat_server import serving as answering
from support.serving.contract_workers import PRICE
from support.serving.served import Served, functions, models, serving, settings


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    config = settings(
        {"pool": functions("good", "slow", "hanging", "failing")},
        ("good",),
        contract={"max_cost_usd": 1.0},
        serving={"max_body_bytes": 4096, "profiles": {"quick": {"deadline_s": 0.3}}},
    )
    with serving(config) as started:
        yield started


@pytest.fixture
def model_server() -> Iterator[ChatServer]:
    with answering() as server:
        server.after = Reply(chat("Paris"))
        yield server


def test_an_answer_says_what_it_took(served: Served) -> None:
    reply = served.chat("Name a town.")
    said = reply.json()
    assert reply.status_code == 200
    assert said["object"] == "chat.completion"
    (choice,) = said["choices"]
    assert choice["message"]["content"] == "good: Name a town."
    assert choice["finish_reason"] == "stop"
    assert said["usage"]["completion_tokens"] == 3
    assert said["usage"]["planner"]["cost_usd"] == 0
    assert said["usage"]["workers"] == {"requests": 1, "prompt_tokens": 0, "completion_tokens": 3, "cost_usd": PRICE}
    assert said["orchestai"]["contract"] == {"max_cost_usd": 1.0, "deadline_s": 120.0}
    assert reply.headers["x-orchestai-run-id"] == said["orchestai"]["run_id"] == said["id"]
    assert float(reply.headers["x-orchestai-cost-usd"]) == PRICE


def test_a_conversation_reaches_the_model_whole(model_server: ChatServer) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "Hi."},
        {"role": "developer", "content": "Answer in French."},
        {"role": "user", "content": "What is the capital?"},
    ]
    with serving(settings(models(model_server.url, "tiny"))) as served:
        more = {"max_tokens": 9, "temperature": 0.5, "stop": "END", "messages": messages}
        assert served.chat(**more).json()["choices"][0]["message"]["content"] == "Paris"
    (asked,) = model_server.asked
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief.\n\nAnswer in French."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "What is the capital?"},
    ]
    assert (asked["max_tokens"], asked["temperature"], asked["stop"]) == (9, 0.5, ["END"])


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"logprobs": True}, "logprobs", "unsupported_value"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "unsupported_parameter"),
        ({"response_format": {"type": "json_object"}}, "response_format.type", "unsupported_value"),
        ({"temprature": 1}, "temprature", "unknown_parameter"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "assistant", "content": "I"}]}, "messages[0].role", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
            "unsupported_value",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]}]},
            "messages[0].content[0].cache_control",
            "unsupported_parameter",
        ),
        ({"orchestai": {"contract": {"max_cost": 1}}}, "orchestai.contract.max_cost", "unknown_parameter"),
        ({"orchestai": {"contract": {"max_cost_usd": 9}}}, "orchestai.contract.max_cost_usd", "invalid_value"),
        ({"orchestai": {"contract": {"max_cost_usd": 1e-6}}}, "orchestai.contract", "contract_infeasible"),
        (
            {"model": "worker:good", "orchestai": {"contract": {"prefer": 1}}},
            "orchestai.contract.prefer",
            "invalid_value",
        ),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused_by_name(
    served: Served, more: dict[str, Any], param: str, code: str
) -> None:
    reply = served.chat(**more)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, code)
    assert error["type"] == "invalid_request_error"


def test_an_infeasible_contract_comes_with_one_that_is_feasible(served: Served) -> None:
    said = served.chat(orchestai={"contract": {"max_cost_usd": 1e-6}}).json()
    assert said["orchestai"]["feasible_contract"]["max_cost_usd"] == PRICE


def test_a_deadline_ends_a_request(served: Served) -> None:
    reply = served.client.post(
        "/v1/chat/completions",
        json={"model": "worker:hanging", "messages": [{"role": "user", "content": "Wait."}]},
        headers={"X-OrchestAI-Deadline-S": "0.2"},
    )
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert reply.elapsed.total_seconds() < 2
    assert reply.json()["orchestai"]["unsettled_usd"] == PRICE


def test_several_planners_are_asked_by_their_names() -> None:
    """Each is a model, with the profiles that it can keep."""
    config = settings(
        {"pool": functions("good", "slow")},
        ("good",),
        serving={"checkpoints": {"other": "heuristic"}, "profiles": {"quick": {"deadline_s": 9}}},
    )
    with serving(config) as served:
        listed = {
            model["id"]: model["orchestai"]["planner"] for model in served.client.get("/v1/models").json()["data"]
        }
        asked = served.chat("Name a town.", model="other:quick").json()["orchestai"]
        default = served.chat("Name a town.").json()["orchestai"]
    assert list(listed)[:4] == ["orchestai", "orchestai:quick", "other", "other:quick"]
    assert listed["other"] == listed["other:quick"] == "heuristic"
    assert asked["planner"] == "heuristic"
    assert asked["contract"]["deadline_s"] == 9
    assert default["planner"] == listed["orchestai"] != "heuristic"
