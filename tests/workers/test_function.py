"""Functions and classes of a user's own as workers: what they get, what their errors are, and that nothing waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import WorkersConfig, load_config
from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox import Sandbox
from orchestai.workers.base import Answer, Request, WorkerCard, WorkerError
from orchestai.workers.kinds.function import function_tool
from orchestai.workers.pool import WorkerPool, worker_cards
from orchestai.workers.registry import register

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


def two_unknown(a: str, b: str) -> str:
    return a + b


def one_too_many(instruction: str, style: str) -> str:
    return instruction + style


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [(two_unknown, {}, "'a'"), (one_too_many, {}, "'style'"), (text, {"tone": "kind"}, "'tone'"), (len, {}, "/")],
)
def test_a_parameter_that_no_request_fills_is_refused_before_anything_is_asked(function, options, said) -> None:
    with pytest.raises(UserError, match=said):
        function_tool(function, "mine:f", options)


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


CONFIG = """
workers:
  pool:
    shout: {kind: function, function: "%s:shout", card: shouts, price_per_call_usd: 0.01}
    polite: {kind: "%s:Polite", card: greets, options: {greeting: Good day}}
"""
MODULE = """
def shout(text):
    return text.upper()

class Polite:
    def __init__(self, card, greeting):
        self.card, self.greeting = card, greeting

    async def answer(self, request):
        from orchestai.workers.base import Answer
        return Answer(text=f"{self.greeting}, {request.instruction}")
"""


async def test_a_module_beside_the_configuration_is_found(tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "beside_config.py").write_text(MODULE)
    (tmp_path / "config.yaml").write_text(CONFIG % (("beside_config",) * 2))
    config = load_config(tmp_path / "config.yaml").workers
    assert [(card.kind, card.price_usd) for card in worker_cards(config)] == [("tool", 0.01), ("tool", 0.0)]
    async with WorkerPool.from_config(config, sandbox) as pool:
        answer = await pool.answer("shout", Request("hello"))
        assert (answer.text, answer.cost_usd, answer.source) == ("HELLO", 0.01, "tool")
        assert answer.latency_ms > 0
        assert (await pool.answer("polite", Request("Ada"))).text == "Good day, Ada"
        assert pool.usage["shout"].cost_usd == 0.01


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ({"kind": "function", "function": "absent_module:f"}, "absent_module"),
        ({"kind": "function", "function": "math:pi"}, "neither a function nor a class"),
        ({"kind": "function", "function": "orchestai.names:absent"}, "absent"),
        ({"kind": "fractions:Fraction", "options": {"tone": "kind"}}, "tone"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_workers_name(
    worker: dict[str, Any], said: str, sandbox: Sandbox
) -> None:
    config = WorkersConfig(pool={"mine": {"card": "c", **worker}})
    with pytest.raises(UserError, match=rf"workers\.pool\.mine.*{said}"):
        WorkerPool.from_config(config, sandbox)


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
