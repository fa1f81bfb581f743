"""`/v1/responses`: the same runs in OpenAI's other format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.models.model_server import ModelServer, model_server
from support.serving.served import Served, models, serving, settings


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture(scope="module")
def served(server: ModelServer) -> Iterator[Served]:
    with serving(settings(models(server.url, "talking", "failing"), ("talking",))) as started:
        yield started


def ask(served: Served, **more: Any) -> Any:
    return served.client.post("/v1/responses", json={"model": "orchestai", "input": "Count to three.", **more})


def test_an_answer(served: Served, server: ModelServer) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"role": "assistant", "content": "Yes?"},
    ]
    told = {"instructions": "Be brief.", "metadata": {"team": "blue"}, "user": "someone"}
    said = ask(served, **told, input=[*items, {"role": "user", "content": "Count."}]).json()
    (item,) = said["output"]
    assert said["status"] == "completed"
    assert said["metadata"] == {"team": "blue"}
    assert item["content"][0]["text"] == "talking answers: Count."
    assert said["usage"]["total_tokens"] == said["usage"]["input_tokens"] + said["usage"]["output_tokens"] == 13
    assert [message["role"] for message in server.asked[-1]["messages"]] == ["system", "user", "assistant", "user"]
    assert served.client.get(f"/v1/runs/{said['id']}").json()["id"] == said["orchestai"]["run_id"]


def test_a_stream(served: Served) -> None:
    body = {"model": "orchestai", "input": "Count to three.", "stream": True}
    with served.client.stream("POST", "/v1/responses", json=body) as reply:
        events = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds.count("response.output_text.delta") > 2
    assert kinds[-1] == "response.completed"
    told = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert told == events[-1]["response"]["output"][0]["content"][0]["text"] == "talking answers: Count to three."


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_value"),
        ({"input": []}, "input", "missing_required_parameter"),
        ({"input": [{"type": "item_reference", "id": "1"}]}, "input[0].type", "unsupported_value"),
        ({"input": [{"role": "user", "content": "Hi.", "phase": "x"}]}, "input[0].phase", "unsupported_parameter"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi.", "cache": 1}]}]},
            "input[0].content[0].cache",
            "unsupported_parameter",
        ),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": ""}]}, "input", "tool_call_not_found"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format.type", "unsupported_value"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(served: Served, more: dict[str, Any], param: str, code: str) -> None:
    error = ask(served, **more).json()["error"]
    assert (error["param"], error["code"]) == (param, code)
