"""No answer may cost more than was said before anybody was asked: contracts stand on it."""

from __future__ import annotations

import pytest

from orchestai.tasks.visible_examples import Example
from orchestai.workers.base import Request, Signature, TextCompletion, WorkerCard
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.model_worker import ModelWorker, Prices
from orchestai.workers.prices import most_tokens
from orchestai.workers.prompting.prompts import strategy

PRICES = Prices(per_call=0.001, per_mtok_in=3.0, per_mtok_out=15.0)


class Longest:
    """Reads a token per byte and writes as much as it may."""

    identity = "longest"
    tries = 1

    async def generate(self, prompt: Prompt, params: SamplingParams, sample: int, hear=None) -> TextCompletion:
        return TextCompletion(
            text="    return x",
            prompt_tokens=most_tokens(prompt),
            completion_tokens=params.max_new_tokens,
            latency_ms=1,
        )

    async def check(self) -> None: ...
    async def close(self) -> None: ...


def worker(samples: int, tries: int = 1) -> ModelWorker:
    model = Longest()
    model.tries = tries
    return ModelWorker(
        WorkerCard("w", "writes", 0.0, "model"),
        model,
        strategy("chat", None),
        SamplingParams(0.7, 50),
        samples=samples,
        prices=PRICES,
        sandbox=None,  # type: ignore[arg-type]  # without examples nothing is run
    )


async def test_the_longest_answer_costs_no_more_than_the_worst_case() -> None:
    request = Request("Reverse it.", inputs={"1": "ünï" * 40}, task="All of it.")
    bound = worker(1).worst_case(request)
    assert (await worker(1).answer(request)).cost_usd <= bound.cost_usd


def test_every_sample_and_every_try_counts() -> None:
    choice = Request("Reverse it.", Signature("f", ("x",)), (Example(("ab",), "ba"),))
    one = worker(1).worst_case(choice)
    assert worker(4, tries=3).worst_case(choice).cost_usd == pytest.approx(12 * one.cost_usd)
    assert worker(4, tries=3).worst_case(choice).calls == 12
    text = Request("Reverse it.")
    assert worker(4).worst_case(text).calls == 1, "without examples there is nothing to choose by, and one is drawn"
