"""Generations are remembered under keys that cover all they depend on, and never made up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from orchestai.errors import InfrastructureError
from orchestai.workers.base import TextCompletion
from orchestai.workers.generation import Cached, Prompt, SamplingParams, generation_key
from orchestai.workers.recording import RecordingFile, read_recordings

PROMPT = Prompt((("user", "reverse the text"),), prefill="def f(x):\n")
SAMPLED = SamplingParams(temperature=0.8)


class Counting:
    """A generator whose answers tell what was asked, and that counts how often."""

    identity = "counting"
    tries = 1

    def __init__(self, fault: Exception | None = None) -> None:
        self.asked = 0
        self.fault = fault

    async def generate(
        self, prompt: Prompt, params: SamplingParams, sample: int, heard: object = None
    ) -> TextCompletion:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.fault:
            raise self.fault
        text = f"{prompt.text} #{sample} ümlaut"
        return TextCompletion(text=text, prompt_tokens=5, completion_tokens=3, latency_ms=12.5, origin="a test")

    async def check(self) -> None:
        return None

    async def close(self) -> None:
        return None


def test_a_key_covers_everything_that_an_answer_depends_on() -> None:
    keys = [
        generation_key("m", PROMPT, SAMPLED, 0),
        generation_key("n", PROMPT, SAMPLED, 0),
        generation_key("m", replace(PROMPT, prefill=""), SAMPLED, 0),
        generation_key("m", replace(PROMPT, messages=(("system", "reverse the text"),)), SAMPLED, 0),
        generation_key("m", PROMPT, replace(SAMPLED, temperature=0.7), 0),
        generation_key("m", PROMPT, replace(SAMPLED, stop=("x",)), 0),
        generation_key("m", PROMPT, SAMPLED, 1),
    ]
    assert len(set(keys)) == len(keys)
    # Known answer: a change of the format would silently orphan every recording.
    assert generation_key("m", PROMPT, SAMPLED, 0) == "0abcc22e97a71e21ed7386e227208a1d"


async def test_equal_requests_in_flight_are_asked_once_and_survive_a_cancelled_asker(tmp_path: Path) -> None:
    cached = Cached(model := Counting(), tmp_path)
    first, second = (asyncio.ensure_future(cached.generate(PROMPT, SAMPLED, 0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).source == "live"
    assert (await cached.generate(PROMPT, SAMPLED, 0)).source == "cache"
    assert model.asked == 1
    await cached.close()


async def test_the_cache_outlives_its_process_and_is_shared(tmp_path: Path) -> None:
    one, other = Cached(Counting(), tmp_path), Cached(late := Counting(), tmp_path)
    made = await one.generate(PROMPT, SAMPLED, 3)
    found = await other.generate(PROMPT, SAMPLED, 3)
    assert late.asked == 0
    assert found == made.model_copy(update={"source": "cache"})
    await one.close()
    await other.close()


async def test_a_failure_is_not_remembered() -> None:
    cached = Cached(model := Counting(InfrastructureError("server", "down")), None)
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            await cached.generate(PROMPT, SAMPLED, 0)
    assert model.asked == 2
    await cached.close()


async def record(path: Path, samples: range) -> None:
    recording = Cached(Counting(), None, file=RecordingFile(path))
    for sample in samples:
        await recording.generate(PROMPT, SAMPLED, sample)


async def test_a_recording_gives_back_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    await record(path := tmp_path / "r.jsonl", range(2))
    replayed = Cached(Counting(), None, read_recordings([path]), may_run=False)
    live = await Counting().generate(PROMPT, SAMPLED, 1)
    assert await replayed.generate(PROMPT, SAMPLED, 1) == live.model_copy(update={"source": "recording"})
    with pytest.raises(InfrastructureError, match=r"no recording of counting, sample 2.*def f\(x\)"):
        await replayed.generate(PROMPT, SAMPLED, 2)


async def test_recording_goes_on_after_a_crash_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await record(path, range(3))
    path.write_bytes(path.read_bytes()[:-20])  # the last line is torn
    await record(path, range(4))
    assert len(read_recordings([path])) == 4
    lines = [line for line in path.read_text().splitlines() if '"key"' in line]
    assert len(lines) == 5, "two whole lines, the torn one, and two new ones"


async def test_a_request_that_nobody_waits_for_any_more_is_cancelled_and_may_be_made_anew() -> None:
    """It went on, and was paid for, after the deadline of all who had asked."""
    left = asyncio.Event()

    class Hanging(Counting):
        async def generate(
            self, prompt: Prompt, params: SamplingParams, sample: int, heard: object = None
        ) -> TextCompletion:
            if self.asked:
                return await super().generate(prompt, params, sample)
            self.asked += 1
            try:
                return await asyncio.Future()
            except asyncio.CancelledError:
                left.set()
                raise

    cached = Cached(model := Hanging(), None)
    askers = [asyncio.ensure_future(cached.generate(PROMPT, SAMPLED, 0)) for _ in range(2)]
    while not model.asked:
        await asyncio.sleep(0)
    askers[0].cancel()
    await asyncio.wait(askers[:1])
    assert not left.is_set()
    askers[1].cancel()
    anew = asyncio.ensure_future(cached.generate(PROMPT, SAMPLED, 0))
    await asyncio.wait_for(left.wait(), 10)
    assert (await anew).prompt_tokens == 5
