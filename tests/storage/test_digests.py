"""Damaged checkpoints are refused: overwritten weights load without an error, and choose other workers or give NaN."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch

from orchestai.agents.policies import open_policies, save_policies
from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.language.checkpoint import open_language_planner, read_state
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import digests
from orchestai.training.rl.run_state import Position, load_state, save_state
from orchestai.workers.pool import worker_cards
from support.agents import sample as agents_sample
from support.models.language_model import save_tiny_model

POOL = {"sums": {"kind": "tool", "tool": "calculator", "card": "Does sums."}}


def slot_planner(folder: Path) -> tuple[Path, Callable[[], object]]:
    config = Config(planner={"base": "none", "d_model": 32, "num_layers": 1}, workers={"pool": POOL})
    cards = worker_cards(config.workers)
    path = folder / "phase1_best.pth"
    save_planner(path, PlannerModel(config.planner, cards), config, epoch=1)
    return path, lambda: load_planner(path, config.planner, config.workers)


def language_planner(folder: Path, **language: object) -> tuple[Path, Callable[[], object]]:
    model = save_tiny_model(folder / "model")
    settings = {"model": str(model), "max_new_tokens": 12, **language}
    config = Config(planner={"kind": "language", "max_subtasks": 3, "language": settings}, workers={"pool": POOL})
    planner = open_language_planner(config.planner, config.workers, value_head=True)
    save_planner(folder / "phase1_last", planner, config, epoch=1, states={"t": torch.rand(500)})

    def load() -> None:
        load_planner(folder / "phase1_last", config.planner, config.workers, value_head=True)
        read_state(folder / "phase1_last")

    return folder / "phase1_last", load


def adapters(folder: Path) -> tuple[Path, Callable[[], object]]:
    return language_planner(folder, lora={"rank": 2})


def agents(folder: Path) -> tuple[Path, Callable[[], object]]:
    config, roles = agents_sample.settings(policies="adapter"), agents_sample.Talk.roles
    save_policies(folder / "phase2_last", open_policies(config, roles, value_head=True), config, {})
    return folder / "phase2_last", lambda: open_policies(
        config, roles, checkpoint=folder / "phase2_last", value_head=True
    )


def training_state(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "phase2_state.pt"
    save_state(path, Position(update=3), {"planner": {"model": {"w": torch.rand(500)}}}, {"seed": 1})
    return path, lambda: load_state(path, {"seed": 1})


KINDS = [slot_planner, language_planner, adapters, agents, training_state]


def overwrite(file: Path, random: Random) -> bytes:
    """Other bytes at a random place, up to 400; what was there before."""
    before = file.read_bytes()
    length = random.randint(1, min(400, len(before)))
    start = random.randrange(len(before) - length + 1)
    changed = bytes(byte ^ random.randint(1, 255) for byte in before[start : start + length])
    file.write_bytes(before[:start] + changed + before[start + length :])
    return before


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_were_overwritten_anywhere_are_noticed(kind, tmp_path):
    path, load = kind(tmp_path)
    load()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        for seed in range(60 // len(files)):
            before = overwrite(file, Random(seed))
            with pytest.raises(UserError, match="damaged") as caught:
                load()
            assert file.name in str(caught.value)
            assert "\n" not in str(caught.value)
            file.write_bytes(before)
    load()


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_cut_emptied_or_lost_are_noticed(kind, tmp_path):
    path, load = kind(tmp_path)
    for file in [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file()):
        before = file.read_bytes()
        for rest in (before[: len(before) // 2], before[:-1], b"", before + b"\n"):
            file.write_bytes(rest)
            with pytest.raises(UserError, match=file.name):
                load()
        file.unlink()
        with pytest.raises(UserError):
            load()
        file.write_bytes(before)
    load()


def test_what_is_written_stays_readable_for_others(tmp_path):
    """`torch.load`, zip tools and `sha256sum -c` know nothing of us."""
    value = {"weights": torch.rand(3000), "name": "planner"}
    digests.save_torch(tmp_path / "value.pt", value)
    for mmap in (False, True):
        loaded = torch.load(tmp_path / "value.pt", weights_only=True, mmap=mmap)
        assert loaded["weights"].equal(value["weights"])
    with zipfile.ZipFile(tmp_path / "value.pt") as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"sha256:")
    folder, load = language_planner(tmp_path)
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--strict", digests.SUMS], cwd=folder, check=True, capture_output=True)
    (folder / "notes.txt").write_text("A file of the user's own harms nothing.")
    load()
