"""A model that is loaded in bfloat16 while others compute: it is right, and they notice nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaForCausalLM, PreTrainedModel

from orchestai.config import ModelConfig
from orchestai.lm import weights
from support.models.architectures import CONFIGS, model_of
from support.models.language_model import save_tiny_model


def formats(model: PreTrainedModel) -> dict[str, torch.dtype]:
    return {name: each.dtype for name, each in (*model.named_parameters(), *model.named_buffers())}


def test_a_model_that_is_built_changes_nothing_for_other_threads(tmp_path: Path, monkeypatch) -> None:
    """A worker's model loads when it is first asked, while a planner plans in another thread."""
    folder = save_tiny_model(tmp_path / "model")
    building, seen = threading.Event(), threading.Event()
    init = LlamaForCausalLM.__init__

    def paused(self: LlamaForCausalLM, *args: Any, **kwargs: Any) -> None:
        building.set()
        assert seen.wait(60)
        init(self, *args, **kwargs)

    monkeypatch.setattr(LlamaForCausalLM, "__init__", paused)
    config = ModelConfig(kind="huggingface", name=str(folder), dtype="bfloat16", device="cpu")
    loaded: list[PreTrainedModel] = []
    thread = threading.Thread(target=lambda: loaded.append(weights.load(config, tmp_path, "workers.models.small")[0]))
    thread.start()
    try:
        assert building.wait(60)
        made = [torch.zeros(1), torch.tensor([0.5]), torch.arange(3) / 2, torch.nn.Linear(2, 2).weight]
        default = torch.get_default_dtype()
    finally:
        seen.set()
        thread.join()
    assert {each.dtype for each in made} == {default} == {torch.float32}
    assert loaded[0].dtype == loaded[0].config.dtype == torch.bfloat16


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_it_is_the_model_that_transformers_builds(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    whole = model_of(CONFIGS[name])
    whole.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    torch.set_default_dtype(dtype)
    try:
        expected = type(whole)(whole.config)
    finally:
        torch.set_default_dtype(torch.float32)
    assert formats(loaded) == formats(expected)
    parameters = dict(loaded.named_parameters())
    for key, parameter in whole.named_parameters():
        assert torch.equal(parameters[key], parameter.to(dtype)), key
