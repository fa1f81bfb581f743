"""A worker that is a language model under a strategy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from orchestai.errors import InfrastructureError, UnbilledError
from orchestai.sandbox.examples import passes_examples
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.base import Answer, Request, TextCompletion, Usage, WorkerCard, WorkerError, WorstCase
from orchestai.workers.generation import Generator, Hear, Prompt, SamplingParams
from orchestai.workers.prices import LONG_TOKEN_BYTES, Prices, most_tokens
from orchestai.workers.prompting.prompts import Strategy

_MOST_READINGS = 4
"""Of the programs in one reply that the visible examples choose from."""


class ModelWorker:
    """Draws up to `samples` completions and keeps the first that passes the request's visible examples.

    They are drawn in rounds of 1, 2, 4, ...: a round is one request for several samples, so its prompt is paid for
    once, and its latency is that of its slowest sample. Only what was drawn is paid for. If none passes, the first
    counts. Of several programs in one reply the examples choose, too. Without any there is nothing to choose by, and
    one sample is drawn. The time that the check takes in the sandbox is not counted as latency.
    """

    def __init__(
        self,
        card: WorkerCard,
        generator: Generator,
        strategy: Strategy,
        params: SamplingParams,
        *,
        samples: int,
        prices: Prices,
        sandbox: Sandbox,
        writes: Literal["anything", "functions", "checked_functions"] = "anything",
    ) -> None:
        self.card = card
        self._generator = generator
        self._strategy = strategy
        self._params = params
        self._samples = samples
        self._prices = prices
        self._sandbox = sandbox
        self._writes = writes

    def worst_case(self, request: Request) -> WorstCase:
        """Every sample is drawn, each in a request of its own, which is tried as often as may be."""
        try:
            prompt = self._prompt(request)
        except WorkerError:  # and so will `answer`, before it asks
            return WorstCase(calls=0)
        calls = self._generator.tries * (self._samples if self._chooses(request) else 1)
        written = self._params_for(request).max_new_tokens
        return WorstCase(
            cost_usd=calls * self._prices.cost(most_tokens(prompt), written),
            calls=calls,
            output_bytes=len(prompt.prefill.encode()) + written * LONG_TOKEN_BYTES,
        )

    def _chooses(self, request: Request) -> bool:
        """Whether there is something to choose a sample by."""
        return request.signature is not None and bool(request.examples) and self._samples > 1

    async def answer(self, request: Request) -> Answer:
        return await self._answer(request, None)

    async def speak(self, request: Request, hear: Hear) -> Answer:
        """`answer`, heard while it is written, where it is a text."""
        return await self._answer(request, hear if request.signature is None else None)

    async def _answer(self, request: Request, hear: Hear | None) -> Answer:
        prompt = self._prompt(request)
        heard = () if hear is None else (unwrapping(hear, prompt.text),)
        params = self._params_for(request)
        sample = request.sample if request.dialogue is None else request.dialogue.seed or request.sample
        first = sample * self._samples
        drawn: list[TextCompletion] = []
        usage = Usage()
        verdicts: dict[str, bool] = {}
        checks = self._chooses(request)
        for size in _rounds(self._samples if checks else 1):
            begin = first + len(drawn)
            try:
                samples = range(begin, begin + size)
                completions = list(
                    await asyncio.gather(*(self._generator.generate(prompt, params, k, *heard) for k in samples))
                )
            except WorkerError as error:
                raise WorkerError(str(error), self._prices.paid(usage.plus(error.usage))) from error
            except UnbilledError as error:
                if begin == first and size == 1:
                    raise
                raise InfrastructureError(error.kind, error.reason) from error  # other samples may be billed
            drawn += completions
            asked = Usage(  # one request: its prompt is read once, and it takes as long as its slowest sample
                prompt_tokens=completions[0].prompt_tokens,
                completion_tokens=sum(completion.completion_tokens for completion in completions),
                cached_tokens=completions[0].cached_tokens,
                latency_ms=max(completion.latency_ms for completion in completions),
                estimated=any(completion.usage_estimated for completion in completions),
            )
            usage = usage.plus(asked)
            checks = checks or (bool(request.examples) and len(self._strategy.answers(request, drawn[0].text)) > 1)
            if checks and (text := await self._first_passing(request, completions, verdicts)) is not None:
                break
        else:
            text = self._strategy.answers(request, drawn[0].text)[0]
            text = unwrapped(text, prompt.text) if request.signature is None else text
        usage = self._prices.paid(usage)
        return Answer(
            text=text,
            prompt=prompt.text,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=usage.cost_usd,
            latency_ms=usage.latency_ms,
            samples=len(drawn),
            passed_examples=verdicts[text] if checks else None,
            source=max((completion.source for completion in drawn), key=("live", "cache", "recording").index),
            usage_estimated=usage.estimated,
            tool_calls=drawn[0].tool_calls if request.signature is None else (),
            truncated=drawn[0].truncated and request.signature is None,
        )

    def _prompt(self, request: Request) -> Prompt:
        """What the model reads; of a text also the client's tools.

        Raises:
            WorkerError: it is not asked for this.
        """
        if self._writes != "anything" and request.signature is None:
            raise WorkerError("it writes functions alone")
        if self._writes == "checked_functions" and not request.examples:
            raise WorkerError(
                "it writes functions that an example checks; show one, such as task_func([3, 1]) == [1, 3]"
            )
        prompt = self._strategy.prompt(request)
        if request.signature is not None or request.dialogue is None:
            return prompt
        return replace(prompt, tool_use=request.dialogue.tool_use)

    def _params_for(self, request: Request) -> SamplingParams:
        """The worker's own, with what the dialogue asks of the answer; what ends a function would cut a text off."""
        params = replace(self._params, stop=()) if request.signature is None else self._params
        if (asked := request.dialogue) is None:
            return params
        return SamplingParams(
            params.temperature if asked.temperature is None else asked.temperature,
            min(params.max_new_tokens, asked.max_new_tokens or params.max_new_tokens),
            (*params.stop, *asked.stop),
        )

    async def _first_passing(
        self, request: Request, completions: Sequence[TextCompletion], known: dict[str, bool]
    ) -> str | None:
        """The first answer that passes; `known` remembers those already judged."""
        assert request.signature is not None
        for completion in completions:
            for code in self._strategy.answers(request, completion.text)[:_MOST_READINGS]:
                if code not in known:
                    known[code] = await passes_examples(self._sandbox, code, request.signature.name, request.examples)
                if known[code]:
                    return code
        return None


_WRAP = re.compile(r"<((?:final_?)?(?:answer|response|output|reply|message|result)|final)>", re.IGNORECASE)
_LONGEST_TAG = 20
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>\s*(?=\S)", re.DOTALL | re.IGNORECASE)
_MAY_WRAP = re.compile(r"<\w{0,14}|<analysis>(?!.*</analysis>\s*\S).*", re.DOTALL | re.IGNORECASE)


def unwrapped(text: str, asked: str) -> str:
    """An answer without white space, and without tags of the model's own that the request does not speak of."""
    text, closing = _opened(text, asked)
    return text.replace(closing, "", 1).strip() if closing else text


def _opened(text: str, asked: str) -> tuple[str, str]:
    """A text from where its answer begins, and the tag that ends it, if there is one."""
    text = text.strip() if "<analysis>" in asked.casefold() else _ANALYSIS.sub("", text.strip(), count=1)
    begins = _WRAP.match(text)
    if begins is None or begins[0].casefold() in asked.casefold():
        return text, ""
    return text[begins.end() :].strip(), f"</{begins[1]}>"


def unwrapping(hear: Hear, asked: str) -> Hear:
    """What is told `hear` of an answer as `unwrapped` reads it; what may be white space or a tag at its end waits."""
    begun, held, closing = False, "", ""

    def tell(piece: str) -> None:
        nonlocal begun, held, closing
        text = held + piece
        if not begun and len(held) > _LONGEST_TAG and "<" not in text[-_LONGEST_TAG - len(piece) :]:
            held = text
            return
        if not begun:
            kept, closing = _opened(text, asked)
            if not kept or _MAY_WRAP.fullmatch(kept):
                held = text
                return
            text = kept + text[len(text.rstrip()) :]
        if closing and closing in text:
            text, closing = text.replace(closing, "", 1), ""
        kept = text.rstrip()
        ends = next((size for size in range(len(closing) - 1, 0, -1) if kept.endswith(closing[:size])), 0)
        kept = kept[: len(kept) - ends].rstrip()
        begun, held = begun or bool(kept), text[len(kept) :]
        if kept:
            hear(kept)

    return tell


def _rounds(samples: int) -> list[int]:
    """Sizes 1, 2, 4, ... that add up to `samples`."""
    sizes: list[int] = []
    while (left := samples - sum(sizes)) > 0:
        sizes.append(min(left, 1 + sum(sizes)))
    return sizes
