"""Whatever the number format, old and new log-probabilities agree before the first step, and steps change weights."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

from orchestai.config import AdamConfig
from orchestai.errors import UserError
from orchestai.lm.causal import CausalPolicy
from orchestai.training.learner import _SKIPS, Learner, NotFiniteError
from orchestai.training.rl import setup
from support.agents import sample as agents_sample
from support.models.architectures import CONFIGS, END, model_of
from support.repository import importing
from support.training import language_phase2

FORMATS: dict[str, dict[str, Any]] = {
    "float32": {},
    "adapters over bfloat16": {"dtype": "bfloat16", "lora": {"rank": 4}},
    "float32 multiplied in bfloat16": {"mixed_precision": "bf16"},
}


@pytest.fixture(autouse=True)
def _any_format() -> Iterator[None]:
    """Accelerate holds one format for the whole process."""
    AcceleratorState._reset_state()
    yield
    AcceleratorState._reset_state()


def first_row(output: Path) -> dict[str, float]:
    lines = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return next(line for line in lines if "ratio" in line)


@pytest.mark.parametrize("name", FORMATS)
def test_the_first_ratios_of_agents_are_1(tmp_path: Path, name: str):
    """Ratios of tokens were up to 1.09, and GSPO (bounds of 0.0003) clipped rows of which nothing had been learned."""
    model = {"tiny": {"hidden": 32, "layers": 2, "context": 1024}, "max_new_tokens": 16, **FORMATS[name]}
    phase2 = {"loss_type": "gspo", "num_episodes": 4, "num_minibatches": 2, "kl_coef": 0.01}
    agents_sample.trainer(tmp_path, agents_sample.settings(model=model, phase2=phase2)).train()
    row = first_row(tmp_path)
    assert row["max_first_deviation"] < (1e-5 if name == "float32" else 1e-6)
    assert row["max_ratio"] > 1 + 1e-5, "the second step's ratios have moved"


@pytest.mark.parametrize("name", FORMATS)
def test_the_first_ratios_of_a_planner_are_1(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("orchestai.planner.language.planner.read_plan", language_phase2.read_as_a_choice)
    config = language_phase2.config(tmp_path, None, num_generations=6, temperature=4.0, loss_type="gspo")
    language = type(config.planner.language)(
        **config.planner.language.model_dump(exclude=FORMATS[name].keys()), **FORMATS[name]
    )
    config = config.model_copy(update={"planner": config.planner.model_copy(update={"language": language})})
    asyncio.run(setup.train(config, checkpoint=Path("base"), output_dir=tmp_path / "out"))
    assert first_row(tmp_path / "out")["max_first_deviation"] < 1e-5


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_the_first_ratios_of_two_processes_are_1(tmp_path: Path, repository: Path, layout: str):
    """FSDP2 rounded what goes into the loss to bfloat16, old log-probabilities and advantages too: ratios of 1.006."""
    phase2 = {"loss_type": "gspo", "num_episodes": 4, "num_minibatches": 2, "kl_coef": 0.05}
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--mixed_precision", "bf16"]
    launch += ["--config_file", str(repository / "accelerate_configs" / f"{layout}.yaml"), "--main_process_port", "0"]
    launch += ["--cpu"] if layout == "ddp" else []
    subprocess.run(
        [
            *launch,
            str(repository / "tests/support/agents/sample.py"),
            str(tmp_path),
            json.dumps({"run": {"phase2": phase2}}),
        ],
        env=importing() | {"OMP_NUM_THREADS": "1"},
        check=True,
        timeout=280,
    )
    assert first_row(tmp_path / "run")["max_first_deviation"] < 1e-6


def test_a_model_is_verified_in_its_own_format_whatever_is_around():
    """SmolLM2-135M in float32 was refused under mixed precision as a model that computes something else (0.004)."""
    policy = CausalPolicy(model_of(CONFIGS["llama"]), END)
    found = []
    policy.model.get_decoder().layers[0].mlp.register_forward_hook(lambda *call: found.append(call[-1].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        policy.score([torch.tensor([1, 2])], [torch.tensor([3])], 1.0)
    packed, *alone, scored = found
    assert {packed, *alone} == {torch.float32}
    assert scored == torch.bfloat16


def learn(
    dtype: torch.dtype, *, frozen: torch.dtype = torch.float32, accelerator: Accelerator | None = None
) -> Learner:
    layers = nn.Sequential(nn.Linear(4, 4).to(frozen).requires_grad_(False), nn.Linear(4, 4).to(dtype))
    return Learner(accelerator or Accelerator(cpu=True), layers, lambda learns: Squares(learns), AdamConfig())


class Squares(nn.Module):
    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, factor: float) -> tuple[torch.Tensor]:
        return (factor * self.layers(torch.ones(2, 4)).square().sum(),)


def test_weights_do_not_learn_in_float16_and_gradients_do_not_vanish_there():
    with pytest.raises(UserError, match=r"dtype=float16: weights cannot learn.*planner\.language\.dtype.*model\.dtype"):
        learn(torch.float16)
    with pytest.raises(UserError, match=r"dtype=float16: small gradients vanish.*mixed_precision.*fp16"):
        learn(torch.float32, frozen=torch.float16)


def scaled() -> Learner:
    """As with fp16 on a GPU, which accelerate does not offer on processors: losses scaled by 2^16 at first."""
    accelerator = Accelerator(cpu=True)
    accelerator.scaler = torch.amp.GradScaler("cpu")
    accelerator.native_amp, accelerator.state._mixed_precision = True, "fp16"
    return learn(torch.float32, accelerator=accelerator)


def test_steps_whose_scale_was_too_high_are_skipped_until_it_is_not():
    """A gradient of a few units, times 2^16, is more than float16 holds."""
    learner = scaled()
    before = [p.detach().clone() for p in learner.planner.parameters()]
    skipped = 0
    while not math.isfinite(learner.step([(4.0,)])[1]):
        assert all(map(torch.equal, before, learner.planner.parameters()))
        skipped += 1
    assert 0 < skipped < _SKIPS
    assert not all(map(torch.equal, before, learner.planner.parameters()))
    resumed = scaled()
    resumed.load_state(learner.state())
    assert resumed.accelerator.scaler.get_scale() == 2.0 ** (16 - skipped)


def test_skipping_ends_where_no_scale_helps():
    learner = scaled()
    for _ in range(_SKIPS):
        learner.step([(float("inf"),)])
    with pytest.raises(NotFiniteError):
        learner.step([(float("inf"),)])
