"""The pool: what is drawn, paid, limited, replayed and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import WorkersConfig
from orchestai.errors import InfrastructureError, UnbilledError
from orchestai.sandbox import Sandbox
from orchestai.tasks.visible_examples import Example
from orchestai.workers.base import Request, Signature, TextCompletion, WorkerCard
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.model_worker import ModelWorker
from orchestai.workers.pool import WorkerPool
from orchestai.workers.prices import Prices
from orchestai.workers.prompting.prompts import Complete
from support.models.language_model import save_tiny_model

DOUBLE = Request("double it", Signature("step", ("x",)), (Example(("4",), "8"),))
PRICES = Prices(per_call=0.001, per_mtok_in=1.0, per_mtok_out=10.0)


class Scripted:
    """A generator that gives the next body by sample index, each 10 tokens long and `sample + 1` ms slow."""

    identity = "scripted"
    tries = 1

    def __init__(self, *bodies: str) -> None:
        self.bodies = bodies
        self.drawn: list[int] = []
        self.stops: list[tuple[str, ...]] = []

    async def generate(self, prompt: Prompt, params: SamplingParams, sample: int, hear=None) -> TextCompletion:
        self.drawn.append(sample)
        self.stops.append(params.stop)
        body = self.bodies[sample % len(self.bodies)]
        source = "recording" if sample == 0 else "live"
        return TextCompletion(
            text=body, prompt_tokens=100, completion_tokens=10, latency_ms=sample + 1.0, source=source
        )

    async def check(self) -> None:
        return None

    async def close(self) -> None:
        return None


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1) as running:
        yield running


def worker(generator: Scripted, sandbox: Sandbox, samples: int) -> ModelWorker:
    return ModelWorker(
        WorkerCard("w", "a worker", 0.0, "model"),
        generator,
        Complete(),
        SamplingParams(0.8, 32, Complete().stop),
        samples=samples,
        prices=PRICES,
        sandbox=sandbox,
    )


async def test_samples_are_drawn_in_rounds_until_one_passes_and_only_those_are_paid(sandbox: Sandbox) -> None:
    generator = Scripted(" return number + 1", " return 0", " return number + 4", " return number * 2", " return None")
    answer = await worker(generator, sandbox, samples=8).answer(DOUBLE)
    assert "number + 4" in answer.text, "the first that passes counts, right or not"
    assert answer.passed_examples is True
    assert generator.drawn == [0, 1, 2], "rounds of 1 and 2"
    assert answer.samples == 3
    assert answer.latency_ms == 1.0 + 3.0, "a round is as slow as its slowest sample"
    assert (answer.prompt_tokens, answer.completion_tokens) == (200, 30), "the prompt is paid once a round"
    assert answer.cost_usd == pytest.approx(0.001 + 200e-6 + 300e-6)
    assert answer.source == "recording"


async def test_a_sample_too_many_hides_no_bill_of_the_samples_before(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = Scripted(" return 1")
    draw, refused_from = generator.generate, 1

    async def until_refused(prompt: Prompt, params: SamplingParams, sample: int) -> TextCompletion:
        if sample >= refused_from:
            raise UnbilledError("rate_limit", "too many")
        return await draw(prompt, params, sample)

    monkeypatch.setattr(generator, "generate", until_refused)
    with pytest.raises(InfrastructureError) as raised:
        await worker(generator, sandbox, samples=3).answer(DOUBLE)
    assert type(raised.value) is InfrastructureError
    refused_from = 0
    with pytest.raises(UnbilledError):
        await worker(generator, sandbox, samples=3).answer(DOUBLE)


async def test_repetitions_draw_samples_of_their_own(sandbox: Sandbox) -> None:
    generator = Scripted(" return 1")
    again = Request(DOUBLE.instruction, DOUBLE.signature, DOUBLE.examples, sample=2)
    await worker(generator, sandbox, samples=3).answer(again)
    assert generator.drawn == [6, 7, 8]


def configuration(folder: Path, **settings: Any) -> WorkersConfig:
    model = {"kind": "huggingface", "name": str(folder / "model"), "dtype": "float32", "device": "cpu"}
    guess = {"kind": "model", "model": "tiny", "temperature": 0.8, "max_new_tokens": 8, "price_per_mtok_out_usd": 1.0}
    pool = {
        "once": {**guess, "card": "one sample"},
        "often": {**guess, "card": "four samples", "samples": 4},
        "search": {"kind": "tool", "tool": "stdlib_search", "card": "searches", "price_per_call_usd": 1e-6},
    }
    base = {"models": {"tiny": model}, "pool": pool, "cache_dir": folder / "cache"}
    return WorkersConfig(**{**base, **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    save_tiny_model(folder / "model")
    return folder


async def test_a_recorded_run_is_replayed_without_the_model(folder: Path, sandbox: Sandbox) -> None:
    """The heart of the fast demo: the same answers, tokens, costs and latencies, and never a made-up one."""
    record = folder / "recording.jsonl"
    async with WorkerPool.from_config(configuration(folder), sandbox, record=record) as pool:
        await pool.check()
        made = [await pool.answer(name, DOUBLE) for name in pool.names[:2]]
        assert pool.usage["often"].cost_usd == made[1].cost_usd > made[0].cost_usd > 0
    config = configuration(folder, recordings=(record,), cache_dir=None, on_miss="unscorable")
    async with WorkerPool.from_config(config, sandbox) as pool:
        replayed = [await pool.answer(name, DOUBLE) for name in pool.names[:2]]
        with pytest.raises(InfrastructureError, match="no recording of"):
            await pool.answer("once", Request("something else", DOUBLE.signature))
    assert replayed == [answer.model_copy(update={"source": "recording"}) for answer in made]


async def test_concurrency_is_limited_per_worker(sandbox: Sandbox) -> None:
    class Slow(Scripted):
        running = most = 0

        async def generate(self, prompt: Prompt, params: SamplingParams, sample: int, hear=None) -> TextCompletion:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            return await super().generate(prompt, params, sample)

    slow = Slow(" return 1")
    pool = WorkerPool({"w": worker(slow, sandbox, samples=1)}, {"w": 2}, {})
    await asyncio.gather(*(pool.answer("w", DOUBLE) for _ in range(6)))
    assert slow.most == 2
