"""Every layout of two processes gives the losses of one, and what one layout leaves another goes on with."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from support.repository import REPOSITORY, importing
from support.training import bandit
from support.training.scribe import PHASE1, RUNS, half, run, teach

SCRIBE = str(REPOSITORY / "tests/support/training/scribe.py")
EVERY = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("LAYOUTS") != "all", reason="takes minutes; run LAYOUTS=all make test-slow"),
]
LAYOUTS = [
    pytest.param("fsdp", ["GRPO"], 0.5, id="fsdp, briefly", marks=pytest.mark.slow),
    *(
        pytest.param(name, list(RUNS), share, id=name, marks=EVERY)
        for name, share in {
            "ddp": 1.0,
            "fsdp": 0.5,
            "deepspeed_zero1": 1.0,
            "deepspeed_zero2": 1.0,
            "deepspeed_zero3": 0.5,
        }.items()
    ),
]


def launch(repository: Path, layout: str, *arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """Two processes of `scribe.py` under the configuration of that name, in float32."""
    settings = str(repository / "accelerate_configs" / f"{layout}.yaml")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", settings, "--num_processes", "2"]
    command += ["--mixed_precision", "no", "--main_process_port", "0", SCRIBE, *arguments]
    environment = importing() | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, timeout=timeout, capture_output=True, text=True, env=environment)


def phase1(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / PHASE1 / "phase1_metrics.jsonl").read_text().splitlines()]


def phase2(folder: Path, name: str) -> list[dict[str, Any]]:
    return [bandit.timeless(row) for key in ("reward", "eval_reward") for row in bandit.rows(folder / name, key)]


@pytest.mark.distributed
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("layout", "names", "share"), LAYOUTS)
def test_a_layout_gives_the_losses_of_one_process(tmp_path, repository, layout, names, share):
    """Whole, resumed, begun by one process and ended in the layout, and begun in the layout and ended by one."""
    if layout.startswith("deepspeed") and importlib.util.find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed")
    one, two = tmp_path / "one", tmp_path / "two"
    teach(one / PHASE1)
    teach(two / "begun" / PHASE1, epochs=1)
    for name in names:
        policy = run(one / name, name)
        half(two / "begun" / name, name)
    done = launch(repository, layout, str(two), "train", *names)
    assert done.returncode == 0, done.stderr[-3000:]
    held = json.loads((two / "held.json").read_text())
    assert held == pytest.approx(share, abs=0.02), "the share of the learned weights that a process holds"

    shutil.copytree(two / "left", two / "ended")
    teach(two / "ended" / PHASE1, resume=True)
    for kind in ("whole", "begun", "ended"):
        for row, other in zip(phase1(one), phase1(two / kind), strict=True):
            assert other == pytest.approx(row, abs=1e-5)
    assert phase1(two / "halves") == phase1(two / "whole")
    for name in names:
        run(two / "ended" / name, name, resume=True)
        for kind in ("whole", "begun", "ended"):
            for row, other in zip(phase2(one, name), phase2(two / kind, name), strict=True):
                assert other == pytest.approx(row, abs=1e-4)
        assert phase2(two / "halves", name) == phase2(two / "whole", name)
    saved = torch.load(two / "whole" / names[-1] / "phase2_last.pth", weights_only=True)
    for key, tensor in policy.state_dict().items():
        torch.testing.assert_close(saved[key], tensor, atol=1e-4, rtol=1e-3)


@pytest.mark.distributed
@pytest.mark.parametrize("layout", [pytest.param("ddp", marks=EVERY), pytest.param("fsdp", marks=EVERY)])
@pytest.mark.parametrize(("kind", "said"), [("die", "SIGKILL"), ("hang", "waited 5 s for the others while")])
def test_the_others_end_where_one_dies_or_hangs(tmp_path, repository, layout, kind, said):
    """Process 1 does so amid the first update, and process 0 must not wait for ever."""
    done = launch(repository, layout, str(tmp_path), kind, timeout=90)
    assert done.returncode != 0
    assert said in done.stderr
    if kind == "hang":
        assert "process 0 of 2: waited 5 s for the others while exchanging the episodes of update 1" in done.stderr
        assert "training.timeout_s" in done.stderr


@pytest.mark.slow
@pytest.mark.distributed
def test_a_process_says_who_it_waited_for_when_another_is_killed(tmp_path, repository):
    """Without a launcher, which would end it first: process 1 is killed, and process 0 says in what it waited."""
    processes = []
    for rank in range(2):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + os.getpid() % 20000)}
        environment = importing() | place | meeting
        command = [sys.executable, SCRIBE, str(tmp_path), "die"]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    try:
        said = processes[0].communicate(timeout=90)[1]
        processes[1].communicate(timeout=30)
    finally:
        for process in processes:
            process.kill()
    assert (processes[0].returncode, processes[1].returncode) == (1, -9), said[-2000:]
    assert "InfrastructureError: process 0 of 2: another process ended, or cannot be reached, while" in said
    assert "exchanging the episodes of update 1" in said
