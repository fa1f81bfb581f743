"""Phase 2 as a command on a language model: from a folder to a folder, with adapters, with a critic, from nothing."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.language.checkpoint import open_language_planner
from orchestai.training.rl import setup
from support.training.language_phase2 import config, read_as_a_choice

FOUR_BITS = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")


def run(settings: Config, checkpoint: Path, output: Path, *, resume: bool = False):
    return asyncio.run(setup.train(settings, checkpoint=checkpoint, output_dir=output, resume=resume))


@pytest.mark.parametrize(
    ("lora", "phase2"),
    [
        pytest.param({}, {}, marks=pytest.mark.slow),
        ({"rank": 2}, {"kl_coef": 0.1}),
        pytest.param({"rank": 2}, {"load_in_4bit": True, "kl_coef": 0.1}, marks=[FOUR_BITS, pytest.mark.slow]),
        ({}, {"algorithm": "PPO", "num_minibatches": 2}),
    ],
    ids=["whole", "adapters", "adapters over 4 bits", "critic"],
)
def test_from_a_folder_of_phase_1_to_one_of_phase_2(tmp_path, lora, phase2, monkeypatch):
    monkeypatch.setattr("orchestai.planner.language.planner.read_plan", read_as_a_choice)
    settings = config(tmp_path, lora, num_generations=6, temperature=4.0, **phase2)
    torch.manual_seed(0)
    first = tmp_path / "phase1_best.pth"
    save_planner(first, open_language_planner(settings.planner, settings.workers), settings, epoch=1)
    assert run(settings, first, tmp_path / "out").updates == 1
    before = load_planner(first, settings.planner, settings.workers).state_dict()
    after = load_planner(tmp_path / "out" / "phase2_last.pth", settings.planner, settings.workers).state_dict()
    # Weights of 4 bits are stored as other numbers, some of which are not numbers at all.
    changed = {name for name in before if not torch.equal(before[name].nan_to_num(), after[name].nan_to_num())}
    assert changed
    assert bool(lora) == all("lora" in name for name in changed)


def test_phase_2_may_start_from_the_model_as_it_is(tmp_path):
    settings = config(tmp_path)
    assert run(settings, Path("base"), tmp_path / "out").updates == 1
    phase2 = settings.training.phase2_rl.model_copy(update={"num_episodes": 4})
    longer = settings.model_copy(update={"training": settings.training.model_copy(update={"phase2_rl": phase2})})
    assert run(longer, Path("base"), tmp_path / "out", resume=True).updates == 2


def test_credit_by_steps_is_refused_before_anything_is_written(tmp_path):
    settings = config(tmp_path, credit="step", loss_type="dr_grpo")
    with pytest.raises(UserError, match=r"phase2_rl\.credit: .*tokens belong to no one step; set credit to plan"):
        run(settings, Path("base"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
