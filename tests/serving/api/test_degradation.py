"""What is answered where planners and workers fail: all the same, or in time, with the status that says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from orchestai.planner.base import Plan
from orchestai.planner.serving import PlanningQueue, ServedPlanner
from orchestai.serving.api import service
from orchestai.tasks.task import Task
from support.models.model_server import ModelServer, model_server
from support.serving.served import Served, functions, models, serving, settings

CHAOS = ("throttled", "failing", "garbage", "half", "slow", "never")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.mark.parametrize(
    ("worker", "stream"), [*((worker, False) for worker in CHAOS), ("garbage", True), ("never", True)]
)
def test_every_request_ends_by_its_deadline(server: ModelServer, worker: str, stream: bool) -> None:
    with serving(settings(models(server.url, worker, "talking"), (worker,))) as served:
        began = time.monotonic()
        terms = {"orchestai": {"contract": {"deadline_s": 1.0}}}
        reply = served.chat(model=f"worker:{worker}", stream=stream, **terms)
        assert time.monotonic() - began < 2.0
    late = worker in ("slow", "never")
    if stream:
        assert ("deadline_exceeded" if late else "workers_failed") in reply.text
    else:
        assert reply.status_code == (504 if late else 502)
        assert reply.json()["error"]["code"] == ("deadline_exceeded" if late else "workers_failed")


def test_a_fallback_answers_for_a_worker_that_fails(server: ModelServer) -> None:
    with serving(settings(models(server.url, "garbage", "talking"), ("garbage", "talking"))) as served:
        assert served.chat("Hi.").json()["choices"][0]["message"]["content"] == "talking answers: Hi."


@pytest.mark.parametrize(("worker", "is_free"), [("throttled", True), ("failing", False)])
def test_what_a_server_has_no_time_for_costs_nothing(server: ModelServer, worker: str, is_free: bool) -> None:
    """Else some replies 429 would use up what a key may spend in a day; what failed otherwise may have been billed."""
    with serving(settings(models(server.url, worker), (worker,))) as served:
        said = served.chat("Hi.").json()
    assert said["error"]["code"] == "workers_failed"
    assert (said["orchestai"]["spent_usd"] == 0.0) is is_free
    assert said["orchestai"]["spent_usd"] == said["orchestai"]["unsettled_usd"]


@pytest.fixture
def two(server: ModelServer) -> Iterator[Served]:
    config = settings(models(server.url, "failing", "talking"), ("talking",), serving={"failures": 2})
    with serving(config, rest_s=0.5, planner_s=0.3) as started:
        yield started


def test_a_worker_that_failed_again_and_again_is_not_asked_until_it_has_rested(
    two: Served, server: ModelServer
) -> None:
    statuses = [two.chat(model="worker:failing").status_code for _ in range(3)]
    assert statuses == [502, 502, 503]
    asked = len(server.asked)
    refused = two.chat(model="worker:failing")
    assert refused.json()["error"]["code"] == "no_worker_left"
    assert int(refused.headers["retry-after"]) >= 1
    assert len(server.asked) == asked
    assert two.client.get("/readyz").json()["out_of_order"] == ["failing"]
    time.sleep(0.6)
    assert two.chat(model="worker:failing").status_code == 502
    assert two.chat(model="worker:failing").status_code == 503


def planning(two: Served, plan: Callable[[Sequence[Task]], list[Plan]]) -> None:
    two.orchestrator._planning = PlanningQueue(ServedPlanner("a planner", plan))


def dead(tasks: Sequence[Task]) -> list[Plan]:
    raise RuntimeError("the planner died")


def invalid(tasks: Sequence[Task]) -> list[Plan]:
    return [Plan(None, False, error="no steps") for _ in tasks]


def hanging(tasks: Sequence[Task]) -> list[Plan]:
    time.sleep(2)
    return invalid(tasks)


@pytest.mark.parametrize(
    ("plan", "reason"), [(dead, "the planner died"), (invalid, "no plan: no steps"), (hanging, "no plan in time")]
)
def test_without_a_plan_the_best_single_worker_answers(two: Served, plan: Callable, reason: str) -> None:
    planning(two, plan)
    reply = two.chat("Hi.")
    said = reply.json()
    assert said["choices"][0]["message"]["content"] == "talking answers: Hi."
    assert reason in said["orchestai"]["degraded"]
    assert said["orchestai"]["planner"] == "the best single worker"
    assert reply.headers["x-orchestai-degraded"] == "true"


def test_more_than_can_wait_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "QUEUE", 0)
    config = settings({"pool": functions("good")}, execution={"concurrency": 1})
    with serving(config) as served:
        served.orchestrator._in_work._free = 1
        from threading import Thread

        workers = {"model": "worker:good"}
        statuses: list[int] = []
        threads = [Thread(target=lambda: statuses.append(served.chat(**workers).status_code)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 503}
    assert 200 in statuses
