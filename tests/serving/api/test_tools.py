"""Clients' tools: a worker that calls one parks its workflow, and the next request resumes that step alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from orchestai.planner.base import Plan
from orchestai.planner.serving import PlanningQueue, ServedPlanner
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow
from support.models.model_server import ModelServer, model_server
from support.serving.served import Served, functions, models, serving, settings

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
QUESTION = {"role": "user", "content": "Find a town. Say how the weather is there."}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture(scope="module")
def config(server: ModelServer) -> Any:
    workers = models(server.url, "calling", "talking")
    workers["pool"] |= functions("good")
    return settings(workers, ("calling",))


@pytest.fixture(scope="module")
def served(config: Any) -> Iterator[Served]:
    with serving(config) as started:
        two_steps(started)
        yield started


def two_steps(served: Served) -> None:
    steps = [
        {"id": "1", "instruction": "Find a town.", "worker": "good"},
        {"id": "2", "instruction": "Say how the weather is there.", "worker": "calling", "depends_on": ["1"]},
    ]

    def plan(tasks: Sequence[Task]) -> list[Plan]:
        return [Plan(Workflow(steps), True) for _ in tasks]

    served.orchestrator._planning = PlanningQueue(ServedPlanner("two steps", plan))


def call(served: Served, **more: Any) -> dict[str, Any]:
    said = served.chat(messages=[QUESTION], tools=TOOLS, **more).json()
    (choice,) = said["choices"]
    assert choice["finish_reason"] == "tool_calls"
    return choice["message"]


def results(message: dict[str, Any]) -> list[dict[str, Any]]:
    given = [{"role": "tool", "tool_call_id": each["id"], "content": "Rain."} for each in message["tool_calls"]]
    return [QUESTION, message, *given]


def test_a_call_parks_the_workflow_and_its_result_resumes_the_step_alone(served: Served, server: ModelServer) -> None:
    message = call(served)
    assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"town": "Oslo"}'}
    asked = len(server.asked)
    said = served.chat(messages=results(message), tools=TOOLS).json()
    assert said["choices"][0]["message"]["content"] == "calling answers: Rain."
    assert said["orchestai"]["steps"] == 1
    (resumed,) = server.asked[asked:]
    assert [each["role"] for each in resumed["messages"]] == ["user", "assistant", "tool"]
    assert "good: Find a town." in resumed["messages"][0]["content"]
    assert resumed["messages"][1]["tool_calls"][0]["id"] == resumed["messages"][2]["tool_call_id"] == "own-1"
    again = served.chat(messages=results(message), tools=TOOLS).json()
    assert again["error"]["code"] == "tool_call_not_found"


def test_a_parked_run_outlives_its_server(config: Any) -> None:
    with serving(config) as first:
        message = call(first)
    with serving(config) as second:
        said = second.chat(messages=results(message), tools=TOOLS).json()
        assert said["choices"][0]["message"]["content"] == "calling answers: Rain."


def test_responses_call_tools_too(served: Served) -> None:
    tools = [{"type": "function", **TOOLS[0]["function"]}]
    body = {"model": "orchestai", "input": "How is the weather?", "tools": tools}
    (called,) = served.client.post("/v1/responses", json=body).json()["output"]
    assert (called["type"], called["name"]) == ("function_call", "weather")
    given = {"type": "function_call_output", "call_id": called["call_id"], "output": "Snow."}
    items = [{"role": "user", "content": "How is the weather?"}, called, given]
    said = served.client.post("/v1/responses", json={**body, "input": items}).json()
    assert said["output"][0]["content"][0]["text"] == "calling answers: Snow."
