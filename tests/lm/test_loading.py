"""Models in 4 bits are read on a CPU too, and the adapters over them learn whatever was done before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from orchestai.config import LoraConfig, ModelConfig
from orchestai.config.agents import AgentModelConfig
from orchestai.errors import UserError
from orchestai.lm import loading, weights
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.local_models import AGENTS, locate
from support.models.language_model import save_tiny_model

PROMPTS = [torch.tensor([40, 50, 60]), torch.tensor([40, 50, 60]), torch.tensor([7, 8])]
WRITTEN = [torch.tensor([41, 42]), torch.tensor([43]), torch.tensor([44, 45])]


def policy(folder: Path) -> CausalPolicy:
    pytest.importorskip("bitsandbytes")
    lora = LoraConfig(rank=2)
    model, _ = loading.read_model(str(folder), AgentModelConfig(load_in_4bit=True, lora=lora), AGENTS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loading.add_adapter(model, lora)
    return CausalPolicy(model.eval(), frozenset({0}))


def gradients(learner: CausalPolicy) -> dict[str, Tensor]:
    learner.zero_grad()
    learner.score(PROMPTS, WRITTEN, 1.0).logp.sum().backward()
    return {name: p.grad.clone() for name, p in learner.named_parameters() if p.grad is not None}


def test_adapters_over_4_bits_learn_after_they_have_sampled(tmp_path: Path) -> None:
    """bitsandbytes packs weights for some CPUs when they are first multiplied in evaluation mode, and then no gradient
    goes through them: the adapters of lower layers would stand still from the first update on."""
    learner = policy(save_tiny_model(tmp_path))
    before = gradients(learner)
    lowest = [name for name in before if "layers.0.self_attn.q_proj.lora_B" in name]
    assert len(lowest) == 1
    assert before[lowest[0]].abs().sum() > 0
    learner.sample(PROMPTS, [1, 2, 3], temperature=1.0, max_new_tokens=4)
    with torch.no_grad():
        learner.score(PROMPTS, WRITTEN, 1.0)
    after = gradients(learner)
    assert after.keys() == before.keys() == {name for name, p in learner.named_parameters() if p.requires_grad}
    for name in before:
        torch.testing.assert_close(after[name], before[name])


def test_every_target_learns_embeddings_too_and_is_read_again(tmp_path: Path) -> None:
    lora = LoraConfig(rank=2, targets=("q_proj", "embed_tokens"))
    source = str(save_tiny_model(tmp_path / "model"))
    model, _ = loading.read_model(source, AgentModelConfig(lora=lora), AGENTS)
    loading.add_adapter(model, lora)
    loading.keep_reference(model)
    learner = CausalPolicy(model.eval(), frozenset({0}))
    of_embedding = {name for name in gradients(learner) if "lora_embedding" in name}
    assert len(of_embedding) == 2
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter += parameter.requires_grad
    model.save_pretrained(tmp_path / "adapter")
    again, _ = loading.read_model(source, AgentModelConfig(lora=lora), AGENTS)
    loading.load_adapter(again, lora, tmp_path / "adapter")
    kept = dict(again.named_parameters())
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(kept[name], parameter)


@pytest.mark.parametrize("targets", [("q_proj", "k_prj"), ("norm",), ("nothing",)])
def test_targets_that_cannot_learn_are_refused(tmp_path: Path, targets: tuple[str, ...]) -> None:
    lora = LoraConfig(rank=2, targets=targets)
    model, _ = loading.read_model(str(save_tiny_model(tmp_path)), AgentModelConfig(lora=lora), AGENTS)
    with pytest.raises(UserError, match=r"lora\.targets"):
        loading.add_adapter(model, lora)


# A model that is loaded in bfloat16 while others compute: it is right, and they notice nothing.


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


# A wrong or unknown model name must be one clear line at once, and a cached model needs no network.


KEY = "planner.language.model"


class Hub(BaseHTTPRequestHandler):
    """Knows `known/model`, is out of order for `broken/model`, and counts what it is asked."""

    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            self.asked.append(self.path)
        status = {"/api/models/known/model": 200, "/api/models/broken/model": 503}.get(self.path, 404)
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        body = b'{"id": "known/model", "siblings": []}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    Hub.asked.clear()
    yield Hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with `cached/model`; the hub's port is closed."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    model, commit = tmp_path / "hub" / "models--cached--model", "0" * 40
    save_tiny_model(model / "snapshots" / commit)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    return model / "snapshots" / commit


def refused(name: str) -> str:
    with pytest.raises(UserError) as error:
        locate(name, KEY)
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith(f"{KEY}: ")
    return said


def test_the_hub_is_asked_once(hub: type[Hub]) -> None:
    assert locate("known/model", KEY) == "known/model"
    assert hub.asked == ["/api/models/known/model"]
    assert "the hub has no model of this name" in refused("unknown/model")
    assert hub.asked[1:] == ["/api/models/unknown/model"]
    assert "is no folder here, and no name on the hub" in refused("a/b/c")
    assert len(hub.asked) == 2


def test_without_a_network_the_cache_has_it_or_nobody(cache: Path) -> None:
    assert locate("cached/model", KEY) == str(cache)
    assert "the hub cannot be reached" in refused("other/model")
