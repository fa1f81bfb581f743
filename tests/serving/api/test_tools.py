"""Clients' tools: a worker that calls one parks its workflow, and the next request resumes that step alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from orchestai.orchestrator import new_run_id
from orchestai.planner.base import Plan
from orchestai.planner.planning_queue import PlanningQueue
from orchestai.planner.serving import ServedPlanner
from orchestai.serving.api.requests.tools import call_name, run_of_call
from orchestai.serving.store import NO_KEY, Database, ParkedRuns
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow
from support.models.model_server import ModelServer, model_server
from support.serving.absent_database import Absence
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


def test_a_resumed_run_that_fails_has_spent_of_its_contract_all_the_same(server: ModelServer) -> None:
    """Else each new try would have the whole of `max_cost_usd` again."""
    config = settings(models(server.url, "calling-withheld"), ("calling-withheld",))
    with serving(config) as served:
        message = call(served)
        run_id = run_of_call(message["tool_calls"][0]["id"]) or ""

        def spent() -> float:
            with Database.open(config.serving.database) as database:
                state = ParkedRuns(database).get(run_id, NO_KEY)
            assert state is not None
            return state["spent_usd"]

        for _ in range(2):
            before = spent()
            failed = served.chat(messages=results(message), tools=TOOLS).json()
            assert failed["error"]["code"] == "workers_failed"
            assert spent() == pytest.approx(before + failed["orchestai"]["spent_usd"])
            assert spent() > before


@pytest.mark.parametrize(("model", "status"), [("calling", 200), ("calling-withheld", 502)])
def test_a_resumed_run_ends_as_it_does_though_the_database_does_not_answer(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, model: str, status: int
) -> None:
    """Its answer was paid for, and one that failed would be held until the server ends."""
    absence = Absence(monkeypatch)
    with serving(settings(models(server.url, model), (model,))) as served:
        message = call(served)
        run = served.orchestrator.run

        async def then_gone(*args: Any, **more: Any) -> Any:
            try:
                return await run(*args, **more)
            finally:
                absence.now = True

        served.orchestrator.run = then_gone  # type: ignore[method-assign]
        assert served.chat(messages=results(message), tools=TOOLS).status_code == status
        absence.now, served.orchestrator.run = False, run  # type: ignore[method-assign]
        wanted = "tool_call_not_found" if status == 200 else "workers_failed"
        until = time.monotonic() + 10
        while (again := served.chat(messages=results(message), tools=TOOLS).json()["error"]["code"]) != wanted:
            assert time.monotonic() < until, again
            time.sleep(0.05)


def test_ids_of_calls_fit_in_what_openai_allows_and_two_runs_have_never_the_same() -> None:
    run_id = new_run_id()
    assert len(call_name(run_id, 127)) <= 40
    assert 4 * len(run_id.removeprefix("run-")) >= 80, "of 48 bits two of twenty million would be the same"


def test_a_call_in_a_stream(served: Served) -> None:
    text = served.chat(messages=[QUESTION], tools=TOOLS, stream=True).text
    assert '"finish_reason":"tool_calls"' in text
    assert '"name":"weather"' in text


def test_all_results_are_needed_and_nothing_is_lost_without(served: Served) -> None:
    message = call(served)
    wrong = [
        QUESTION,
        message,
        {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"][:-1] + "7", "content": "?"},
    ]
    assert "is missing" in served.chat(messages=wrong, tools=TOOLS).json()["error"]["message"]
    assert served.chat(messages=results(message), tools=TOOLS).status_code == 200


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "weather"}}, {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_the_choice_of_tools_is_handed_on(served: Served, server: ModelServer, choice: Any, sent: Any) -> None:
    served.chat(messages=[QUESTION], tools=TOOLS, tool_choice=choice)
    assert server.asked[-1]["tool_choice"] == sent


def test_a_call_that_is_demanded_and_not_made_is_an_error(served: Served) -> None:
    said = served.chat(model="worker:talking", tools=TOOLS, tool_choice="required").json()
    assert said["error"]["code"] == "no_tool_called"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": [{**TOOLS[0], "strict": True}]}, "tools[0].strict"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "weather", "mode": "auto"}}},
            "tool_choice.function.mode",
        ),
        ({"tools": TOOLS, "parallel_tool_calls": False}, "parallel_tool_calls"),
    ],
)
def test_other_tools_are_refused_by_name(served: Served, more: dict[str, Any], param: str) -> None:
    reply = served.chat(**more)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_responses_call_tools_too(served: Served) -> None:
    tools = [{"type": "function", **TOOLS[0]["function"]}]
    body = {"model": "orchestai", "input": "How is the weather?", "tools": tools}
    (called,) = served.client.post("/v1/responses", json=body).json()["output"]
    assert (called["type"], called["name"]) == ("function_call", "weather")
    given = {"type": "function_call_output", "call_id": called["call_id"], "output": "Snow."}
    items = [{"role": "user", "content": "How is the weather?"}, called, given]
    said = served.client.post("/v1/responses", json={**body, "input": items}).json()
    assert said["output"][0]["content"][0]["text"] == "calling answers: Snow."
