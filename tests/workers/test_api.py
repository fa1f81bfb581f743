"""Models behind an OpenAI-compatible server, against a real HTTP server that speaks the protocol and fails on cue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import ModelConfig, WorkerConfig
from orchestai.errors import FaultKind, InfrastructureError, UnbilledError, UserError
from orchestai.workers import openai_api
from orchestai.workers.api_faults import PassingError, retry_after
from orchestai.workers.base import WorkerError
from orchestai.workers.generation import Cached, Prompt, SamplingParams
from orchestai.workers.openai_api import LONGEST_WAIT_S, OpenAIGenerator, wait_s
from orchestai.workers.prices import Prices
from support.models.chat_server import ChatServer, Reply, chat, error, serving

PROMPT = Prompt((("system", "be brief"), ("user", "hello")), prefill="def f")
PARAMS = SamplingParams(temperature=0.5, max_new_tokens=7, stop=("END", "b", "c", "d", "STOP"))
KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as running:
        yield running


def model(url: str, **settings: Any) -> OpenAIGenerator:
    return OpenAIGenerator(ModelConfig(kind="openai_api", name="tiny", base_url=url, **settings))


async def test_a_request_and_its_answer(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    generator = model(server.url)
    await generator.check()
    completion = await generator.generate(PROMPT, PARAMS, 0)
    assert completion.text == "out ", "cut at a stop string that the server was not sent"
    assert (completion.prompt_tokens, completion.completion_tokens) == (11, 3)
    assert completion.latency_ms > 0
    (asked,) = server.asked
    assert asked["messages"][-1] == {"role": "assistant", "content": "def f"}
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("tiny", 0.5, 7)
    assert asked["stop"] == ["END", "b", "c", "d"], "servers take four"
    await generator.generate(PROMPT, PARAMS, 1)
    assert server.asked[1]["seed"] != asked["seed"]
    assert server.keys[0] == f"Bearer {KEY}"
    assert KEY not in completion.model_dump_json() + generator.identity
    await generator.close()


async def test_passing_faults_are_tried_again(server: ChatServer) -> None:
    server.script = [Reply(error(), status=429), Reply(error(), status=503), Reply(b"<html>", content_type="text/html")]
    generator = model(server.url)
    assert (await generator.generate(PROMPT, PARAMS, 0)).text == "out "
    assert len(server.asked) == 4
    await generator.close()


TRIES = 3
UNBILLED = ("rate_limit", "bad_request", "payment", "authentication", "model")
FAULTS: dict[str, tuple[Reply, FaultKind | type[WorkerError], int, str]] = {
    "no money": (Reply(error("add credits"), 402), "payment", 1, "no money or quota left.*add credits.*top it up"),
    "no credit": (Reply(error("Your credit balance is too low"), 400), "payment", 1, "credit balance"),
    "an error of money in a good answer": (Reply(error("add credits", code=402)), "payment", 1, "quota left"),
    "a wrong key": (Reply(error(f"Incorrect key {KEY}"), 401), "authentication", 1, "refused.*variable MY_KEY"),
    "no model": (Reply(error("no such model"), 404), "model", 1, r"no model 'tiny' there.*/v1/models"),
    "too many requests": (Reply(error("slow down"), 429), "rate_limit", TRIES, "slow down.* after 3 tries"),
    "a broken server": (Reply(error(), 500), "server", TRIES, "HTTP 500: fault"),
    "no choice": (Reply(chat(choices=[])), "bad_response", TRIES, "no choice.* after 3 tries"),
    "an error in a good answer": (Reply(error("upstream")), "bad_response", TRIES, "error instead of an answer.*upstr"),
    "an error in a choice": (
        Reply(chat(choices=[{"index": 0, "error": {"message": "upstream", "code": 502}, "finish_reason": "error"}])),
        "server",
        TRIES,
        "upstream",
    ),
    "no JSON": (Reply(b"{oops"), "bad_response", TRIES, "not an answer"),
    "half the bytes": (Reply(missing=100), "connection", TRIES, "lost"),
    "a lost connection": (Reply(drops=True), "connection", TRIES, "lost"),
    "an answer of nothing": (Reply(chat("", usage=None)), "bad_response", TRIES, "no token was written"),
    "a generation that broke off": (Reply(chat("ou", "error")), "bad_response", TRIES, "broke off"),
    "a bad request": (Reply(error("unknown tokens"), 400), "bad_request", 1, "does not take.*unknown tokens"),
    "a long prompt": (
        Reply(error("maximum context length is 8", code="context_length_exceeded"), 400),
        WorkerError,
        1,
        "too long for the model",
    ),
    "a large body": (Reply(error("request entity too large"), 413), WorkerError, 1, "too long"),
    "a forbidden prompt": (Reply(error("x", code="content_policy_violation"), 400), WorkerError, 1, "content policy"),
    "a key that Google refuses": (
        Reply([{"error": {"code": 400, "message": "no", "details": [{"reason": "API_KEY_INVALID"}]}}], 400),
        "authentication",
        1,
        "refused.*variable MY_KEY",
    ),
    "a chat template that raises": (Reply(error("Jinja Exception: no"), 500), "bad_request", 1, "chat template"),
    "thoughts alone": (Reply(chat("<think>\nRome?\n</think>\n")), WorkerError, 1, "holds no answer"),
    "a call of a tool that nobody has": (
        Reply(
            chat(None, choices=[{"message": {"tool_calls": [{"function": {"name": "f"}}]}, "finish_reason": "stop"}])
        ),
        WorkerError,
        1,
        "holds no answer",
    ),
    "a withheld reply": (Reply(chat("", "content_filter")), WorkerError, 1, "withheld the reply"),
}
"""What a server does; what that is, after how many tries, and what is said."""


@pytest.mark.parametrize("case", FAULTS)
async def test_every_fault_of_a_server_has_its_kind(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    """Most were scored as failures of the worker, or ended the command with a traceback; and no cache keeps one."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setattr(openai_api, "FIRST_WAIT_S", 0.001)
    reply, wanted, tries, words = FAULTS[case]
    server.script = [reply] * TRIES
    generator = Cached(model(server.url, max_retries=TRIES - 1, api_key_env="MY_KEY"), tmp_path)
    kind = wanted if isinstance(wanted, type) else InfrastructureError
    if wanted == "payment":  # one request may be too dear for what is left: a second one has to meet it
        with pytest.raises(UnbilledError, match=words) as first:
            await generator.generate(Prompt((("user", "another"),)), PARAMS, 0)
        assert first.value.kind == "bad_request"
        server.script = [reply] * TRIES
        server.asked.clear()
    with pytest.raises(kind, match=words) as caught:
        await generator.generate(PROMPT, PARAMS, 0)
    if isinstance(caught.value, WorkerError):
        paid = (11, 3) if "withheld" in words or "no answer" in words else (0, 0)
        assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == paid
    else:
        assert isinstance(caught.value, InfrastructureError)
        assert caught.value.kind == wanted
    assert type(caught.value) is (UnbilledError if wanted in UNBILLED else kind)
    assert len(server.asked) == tries
    assert server.url in str(caught.value)
    assert KEY not in str(caught.value)
    server.script = []
    completion = await generator.generate(PROMPT, PARAMS, 0)
    assert (completion.text, completion.source) == ("out ", "live"), "asked again, and not remembered"
    await generator.close()


async def test_tokens_that_a_server_does_not_count_are_counted_here(server: ChatServer) -> None:
    """Without usage an answer was free."""
    text = "a reply of some length, which is cut STOP here"
    for usage in (None, {}, {"prompt_tokens": None, "completion_tokens": None}, {"prompt_tokens": 0}):
        server.after = Reply(chat(text, usage=usage))
        generator = model(server.url)
        completion = await generator.generate(PROMPT, PARAMS, 0)
        assert completion.usage_estimated
        # 3 tokens around each of 3 messages and before the reply, and 1 token for each 4 bytes begun.
        assert completion.prompt_tokens == 3 * 4 + 2 + 2 + 2
        assert completion.completion_tokens == 12, "what is behind the stop string was written too"
        await generator.close()
    server.after = Reply()
    generator = model(server.url)
    assert not (await generator.generate(PROMPT, PARAMS, 0)).usage_estimated
    await generator.close()


async def test_tokens_of_a_cache_cost_what_is_said_of_them(server: ChatServer) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 64}}
    server.after = Reply(chat(usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, **details}))
    generator = model(server.url)
    usage = (await generator.generate(PROMPT, PARAMS, 0)).usage
    await generator.close()
    costs = [Prices(0.5, 1e4, 2e4, cached).paid(usage) for cached in (None, 0.0, 2e3)]
    assert [round(paid.cost_usd, 9) for paid in costs] == [1.7, 1.06, 1.188]
    with pytest.raises(ValueError, match="bounds the cost"):
        WorkerConfig(kind="model", card="c", price_per_mtok_in_usd=1, price_per_mtok_cached_usd=2)


async def test_a_check_fails_where_the_work_would(server: ChatServer) -> None:
    page, absent = Reply(b"<!doctype html><html>"), Reply(b"no", 404)
    passing = [
        (Reply({"data": []}), Reply(error("too short"), 400)),
        (page, Reply(error("too short"), 400)),
        (absent, Reply({}, 503)),
    ]
    for models, answers in [
        *passing,
        (Reply({"data": []}), absent),
        (page, absent),
        (absent, absent),
        (absent, Reply(error("a wrong key"), 401)),
    ]:
        server.lists, server.after = {"/v1/models": models}, answers
        generator = model(server.url)
        with nullcontext() if (models, answers) in passing else pytest.raises(UserError):
            await generator.check()
        await generator.close()


def test_the_wait_is_what_the_server_asks_for_within_a_bound() -> None:
    def waits(after_s: float | None, tries: int = 3) -> float:
        return wait_s(PassingError("rate_limit", "slow down", after_s), tries)

    assert 7.0 <= waits(7.0) <= 7.7
    assert waits(1e6) == LONGEST_WAIT_S
    assert waits(0.0) == 0.0
    assert 0 <= waits(None) <= 2.0
    assert waits(None, 30) <= LONGEST_WAIT_S
    assert waits(None, 3000) <= LONGEST_WAIT_S, "two to this power is no number of seconds"


def test_retry_after_is_a_number_or_a_date() -> None:
    now, half_past = datetime(2015, 10, 21, 7, 28, tzinfo=timezone.utc), "Wed, 21 Oct 2015 07:28:30"
    asked = {"12": 12.0, f"{half_past} GMT": 30.0, f"{half_past} -0000": 30.0, "soon": None, "": None}
    assert {said: retry_after({"retry-after": said}, now) for said in asked} == asked
    assert retry_after({"retry-after": "12", "retry-after-ms": "250"}, now) == 0.25


async def test_what_is_refused_by_name_is_left_out_at_once_and_from_then_on(server: ChatServer) -> None:
    server.script = [Reply(error("seed is no field", param="seed"), 400), Reply(error("max_tokens: use another"), 422)]
    generator = model(server.url, max_retries=0)
    await generator.generate(PROMPT, PARAMS, 0)
    await generator.generate(PROMPT, PARAMS, 1)
    assert ["seed" in asked for asked in server.asked] == [True, False, False, False]
    assert ["max_tokens" in asked for asked in server.asked] == [True, True, False, False]
    assert server.asked[-1]["max_completion_tokens"] == PARAMS.max_new_tokens
    await generator.close()
