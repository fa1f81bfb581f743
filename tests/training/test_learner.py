"""Whatever the number format, old and new log-probabilities agree before the first step, and steps change weights."""

from __future__ import annotations

import asyncio
import ctypes
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

from orchestai.config import AdamConfig, Phase2Config
from orchestai.errors import UserError
from orchestai.lm.causal import CausalPolicy
from orchestai.sandbox.inside.jail.processes import resident_bytes
from orchestai.training.distributed import Fsdp2
from orchestai.training.learner import _SKIPS, FreedMemory, Learner, NotFiniteError, free_bytes
from orchestai.training.rl import setup
from orchestai.training.rl.trainer import rate_factor
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


GIB = 1 << 30


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    class Memory:
        available = 200 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory)


def free(folder: Path, own: str, files: dict[str, object]) -> int:
    """In GiB, where the process is in these groups, and their files say that."""
    (folder / "own").write_text(own)
    for name, value in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return free_bytes(folder / "own", folder / "groups") // GIB


def test_a_container_may_take_what_its_limit_leaves(tmp_path):
    assert free(tmp_path, "0::/\n", {"memory.max": 8 * GIB, "memory.current": 3 * GIB}) == 5


def test_a_job_within_limits_of_others_may_take_what_the_tightest_leaves(tmp_path):
    files = {
        "slurm/job_7/step_0/memory.max": "max",
        "slurm/job_7/step_0/memory.current": 1 * GIB,
        "slurm/job_7/memory.max": 8 * GIB,
        "slurm/job_7/memory.current": 2 * GIB,
        "slurm/memory.max": 100 * GIB,
        "slurm/memory.current": 60 * GIB,
    }
    assert free(tmp_path, "0::/slurm/job_7/step_0\n", files) == 6


def test_without_a_limit_what_is_available_counts(tmp_path):
    assert free(tmp_path, "0::/\n", {"memory.max": "max", "memory.current": 3 * GIB}) == 200
    assert free_bytes(tmp_path / "none", tmp_path) == 200 * GIB


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc gives memory back"
)
MIB = 1 << 20


def holes(total: int) -> list[torch.Tensor]:
    """Blocks in use with freed ones between them, about `total` bytes in all, beside what other tests left."""
    torch.ones(8 * MIB, dtype=torch.uint8)  # freed at once: from now on glibc keeps blocks of this size and smaller
    blocks = [torch.ones(3 * MIB, dtype=torch.uint8) for _ in range(total // (3 * MIB))]
    return blocks[::20]


def test_memory_between_blocks_in_use_is_given_back_after_growth_by_a_gib():
    ctypes.CDLL(None).malloc_trim(0)  # else they may lie in what earlier tests freed, and nothing grows
    freed = FreedMemory()
    freed.give_back()
    kept = holes(1200 * MIB)
    held = resident_bytes()
    freed.give_back()
    assert held - resident_bytes() > 900 * MIB
    assert all(int(block.sum()) == 3 * MIB for block in kept)


def test_what_every_step_needs_is_not_given_back_between_steps():
    """A language model's step needs more than a GiB; to ask for it anew each time cost a training much of its time."""
    ctypes.CDLL(None).malloc_trim(0)
    freed = FreedMemory()
    kept = holes(1200 * MIB)
    held = resident_bytes()
    for _ in range(3):
        freed.give_back()
    assert abs(held - resident_bytes()) < 32 * MIB
    assert kept


class Distance(nn.Module):
    """Its loss is the distance of the weights from a goal, noisy as the seed says."""

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, seed: int) -> tuple[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        losses = [
            ((weight - 1 + torch.randn(weight.shape, generator=generator)) ** 2).sum()
            for weight in self.weights.parameters()
        ]
        return (torch.stack(losses).sum(),)


def learner(**settings: Any) -> Learner:
    torch.manual_seed(0)
    return Learner(Accelerator(cpu=True), nn.Linear(128, 64), Distance, AdamConfig(**settings))


def steps(learning: Learner, seeds: range) -> list[torch.Tensor]:
    for seed in seeds:
        learning.step([(seed,)])
    return [parameter.detach().clone() for parameter in learning.planner.parameters()]


def test_schedules_rise_for_the_updates_of_the_warm_up_and_fall_with_the_episodes_that_are_left():
    def rates(**settings: Any) -> list[float]:
        return [rate_factor(Phase2Config(**settings), update, update / 4) for update in range(5)]

    assert rates() == [1, 1, 1, 1, 1]
    assert rates(lr_schedule="linear") == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    half = math.sqrt(0.5)
    assert rates(lr_schedule="cosine") == pytest.approx([1, (1 + half) / 2, 0.5, (1 - half) / 2, 0])
    assert rates(warmup_updates=4) == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    assert rates(lr_schedule="linear", warmup_updates=2) == pytest.approx([0.5, 0.75, 0.5, 0.25, 0])


def test_first_steps_are_adams_with_the_decay_that_was_asked_for():
    """By hand, of two steps: m and v are sums of decayed gradients, corrected for having begun at 0."""
    rate, (first, second), decay = 1e-2, (0.9, 0.999), 0.1
    learning = learner(learning_rate=rate, weight_decay=decay, max_grad_norm=1e9)
    weight = next(learning.planner.parameters()).detach().clone().double()
    m = v = torch.zeros_like(weight)
    for step in (1, 2):
        noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
        gradient = 2 * (weight - 1 + noise)
        m, v = first * m + (1 - first) * gradient, second * v + (1 - second) * gradient**2
        weight = weight * (1 - rate * decay)
        weight -= rate * (m / (1 - first**step)) / ((v / (1 - second**step)).sqrt() + 1e-8)
    assert torch.allclose(steps(learning, range(1, 3))[0].double(), weight, atol=1e-6)


def test_8_bits_hold_the_moments_in_a_quarter_of_the_memory_and_learn_almost_the_same():
    plain, small = learner(learning_rate=1e-2), learner(learning_rate=1e-2, optimizer="adamw_8bit")
    before = [parameter.detach().clone() for parameter in plain.planner.parameters()]
    for old, exact, coarse in zip(before, steps(plain, range(30)), steps(small, range(30)), strict=True):
        assert (coarse - exact).norm() < 0.1 * (exact - old).norm()

    def bytes_of(learning: Learner) -> int:
        moments = learning.state()["moments"]["weight"]
        return sum(moment.nbytes for name, moment in moments.items() if "qmap" not in name)  # one table for all

    assert bytes_of(small) < 0.27 * bytes_of(plain)


@pytest.mark.parametrize("optimizer", ["adamw", "adamw_8bit"])
def test_a_saved_state_goes_on_bit_for_bit(tmp_path: Path, optimizer: str):
    settings = {"learning_rate": 1e-2, "optimizer": optimizer, "weight_decay": 0.1}
    through = learner(**settings)
    whole = steps(through, range(8))
    stopped = learner(**settings)
    stopped.set_rates(0.5)
    torch.save(stopped.state(), tmp_path / "fresh")
    stopped.set_rates(1.0)
    steps(stopped, range(5))
    torch.save(stopped.state(), tmp_path / "state")
    resumed = learner(**settings)
    resumed.load_state(torch.load(tmp_path / "fresh", weights_only=True))
    assert resumed.optimizer.param_groups[0]["lr"] == 5e-3
    resumed.load_state(torch.load(tmp_path / "state", weights_only=True))
    for one, other in zip(whole, steps(resumed, range(5, 8)), strict=True):
        assert torch.equal(one, other)


def test_8_bits_are_refused_where_moments_are_split(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("orchestai.training.learner.layout_of", Fsdp2)
    with pytest.raises(UserError, match=r"optimizer=adamw_8bit.*ddp\.yaml"):
        learner(optimizer="adamw_8bit")
