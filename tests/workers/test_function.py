"""Functions and classes of a user's own as workers: what they get, what their errors are, and that nothing waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from orchestai.config import WorkersConfig
from orchestai.errors import InfrastructureError
from orchestai.sandbox import Sandbox
from orchestai.workers.base import Answer, Request, WorkerCard, WorkerError
from orchestai.workers.pool import WorkerPool, worker_cards
from orchestai.workers.registry import function_tool, register

STEP = Request("Join them.", role="a clerk", inputs={"1": "left", "2": "right"})


def whole(request: Request) -> str:
    return request.role


def text(text: str) -> str:
    return text


def parts(instruction: str, inputs: Mapping[str, str]) -> str:
    return instruction + "+".join(inputs.values())


def any_name(words: str, *, mark: str = "!") -> str:
    return words.splitlines()[0] + mark


async def later(instruction: str) -> Answer:
    await asyncio.sleep(0)
    return Answer(text=instruction, cost_usd=0.25)


class Callable:
    async def __call__(self, role: str) -> str:
        return role


@pytest.mark.parametrize(
    ("function", "options", "answer"),
    [
        (whole, {}, "a clerk"),
        (text, {}, "Join them.\n\nleft\n\nright"),
        (parts, {}, "Join them.left+right"),
        (any_name, {}, "Join them.!"),
        (any_name, {"mark": "?"}, "Join them.?"),
        (later, {}, Answer(text="Join them.", cost_usd=0.25)),
        (Callable(), {}, "a clerk"),
    ],
)
async def test_a_function_gets_what_its_parameters_name(function: Any, options: dict[str, str], answer: Any) -> None:
    assert await function_tool(function, "f", options)(STEP) == answer


def broken(text: str) -> str:
    raise ValueError("no such customer")


def down(text: str) -> str:
    raise InfrastructureError("connection", "the database is away")


def number(text: str) -> Any:
    return 3


async def test_what_a_function_raises_is_the_workers_failure_in_its_own_words() -> None:
    with pytest.raises(WorkerError, match="mine:f raised ValueError: no such customer"):
        await function_tool(broken, "mine:f", {})(STEP)
    with pytest.raises(WorkerError, match="mine:f returned int"):
        await function_tool(number, "mine:f", {})(STEP)
    with pytest.raises(InfrastructureError, match="database"):
        await function_tool(down, "mine:f", {})(STEP)


async def test_a_function_that_blocks_stalls_neither_the_loop_nor_whoever_gives_it_up() -> None:
    started, release = threading.Event(), threading.Event()

    def blocks(text: str) -> str:
        started.set()
        release.wait()
        return text

    asked = asyncio.ensure_future(function_tool(blocks, "blocks", {})(STEP))
    while not started.is_set():
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    release.set()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1) as running:
        yield running


async def test_a_kind_registered_in_python(sandbox: Sandbox) -> None:
    @register("echo-loudly")
    async def echo(instruction: str, mark: str) -> str:
        return instruction + mark

    @register("thoughtful")
    class Thoughtful:
        asks_model = True

        def __init__(self, card: WorkerCard) -> None:
            self.card = card

        async def answer(self, request: Request) -> Answer:
            return Answer(text="hm", cost_usd=0.5)

    loud = {"kind": "echo-loudly", "card": "c", "options": {"mark": "!"}}
    config = WorkersConfig(pool={"e": loud, "t": {"kind": "thoughtful", "card": "c", "price_per_call_usd": 1.0}})
    assert worker_cards(config) == [WorkerCard("e", "c", 0.0, "tool"), WorkerCard("t", "c", 1.0, "model")]
    async with WorkerPool.from_config(config, sandbox) as pool:
        assert (await pool.answer("e", Request("hi"))).text == "hi!"
        assert (await pool.answer("t", Request("hi"))).cost_usd == 0.5
        assert pool.worst_case("t", Request("hi")).cost_usd == 1.0


# Kinds of workers: what each is to planners, and what is said of one that nobody knows.


def pool_of(**workers: dict[str, Any]) -> WorkersConfig:
    models = {"m": {"kind": "openai_api", "name": "m", "base_url": "http://127.0.0.1:9/v1"}}
    return WorkersConfig(models=models, pool=workers, cache_dir=None)


def test_planners_know_of_a_kind_whether_it_asks_a_language_model() -> None:
    """The one bit of a card that weights have learned from; more kinds must not change what it means."""
    config = pool_of(
        asked={"kind": "model", "model": "m", "card": "c", "price_per_mtok_in_usd": 1.0},
        sums={"kind": "tool", "tool": "calculator", "card": "c", "price_per_call_usd": 0.5},
    )
    assert [(card.kind, card.price_usd) for card in worker_cards(config)] == [
        ("model", pytest.approx(150e-6)),
        ("tool", 0.5),
    ]
