"""What the container of a SageMaker job makes of the files that it gets, and what it leaves."""

from __future__ import annotations

import json
import signal
import sys
import tarfile
from pathlib import Path

import pytest

from orchestai.launch import container
from orchestai.launch.container import Hosts, training_command
from orchestai.planner.files import METADATA, last_of, locate
from support.repository import REPOSITORY
from support.sagemaker_job import HYPERPARAMETERS


def test_hosts_with_gpus_become_one_launch(tmp_path: Path) -> None:
    (tmp_path / "input/data/checkpoint/phase1_best").mkdir(parents=True)
    hosts = Hosts(("algo-1", "algo-2"), "algo-2", "eth0", gpus=8)
    command = training_command({**HYPERPARAMETERS, "orchestai_train": "phase2"}, hosts, tmp_path)
    launcher, training = command[: command.index("-m", 2)], command[command.index("-m", 2) :]
    assert launcher[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    assert dict(zip(launcher[3::2], launcher[4::2], strict=True)) == {
        "--config_file": "accelerate_configs/ddp.yaml",
        "--num_processes": "16",
        "--num_machines": "2",
        "--machine_rank": "1",
        "--main_process_ip": "algo-1",
        "--main_process_port": "29500",
    }
    assert training[:3] == ["-m", "orchestai.cli", "train-phase2"]
    assert training[training.index("--checkpoint") + 1] == str(tmp_path / "input/data/checkpoint/phase1_best")
    assert training[-2:] == ["model=tiny", "training.phase2_rl.learning_rate=1e-5"]
    assert "--resume" not in training
    assert hosts.environment()["NCCL_SOCKET_IFNAME"] == "eth0"
    assert 60 < int(hosts.environment()["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < 120, "SageMaker kills after two minutes"


def test_a_checkpoint_is_found_however_it_came(tmp_path: Path) -> None:
    """As a folder that was uploaded with its name; as what is in one, which s3://... brings; or not at all."""
    hyperparameters, alone = {**HYPERPARAMETERS, "orchestai_train": "phase2"}, Hosts(("a",), "a")

    def given() -> str:
        command = training_command(hyperparameters, alone, tmp_path)
        return command[command.index("--checkpoint") + 1]

    assert given() == "base"
    channel = tmp_path / "input/data/checkpoint"
    (channel / "phase1_best").mkdir(parents=True)
    assert given() == str(channel / "phase1_best")
    (channel / "phase1_best").rmdir()
    for name in ("config.json", "model.safetensors"):
        (channel / name).touch()
    assert given() == str(channel)


def test_the_results_of_a_job_begin_the_next_as_the_service_packs_them(tmp_path: Path) -> None:
    """`s3://.../output/JOB/output/model.tar.gz`, which is no planner until it is unpacked."""
    channel, best = tmp_path / "input/data/checkpoint", tmp_path / "model/phase2_best"
    channel.mkdir(parents=True)
    best.mkdir(parents=True)
    (best / METADATA).write_text("{}")
    with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
        archive.add(best, "phase2_best")
    for train in ("phase2", "tool_use"):
        command = training_command({**HYPERPARAMETERS, "orchestai_train": train}, Hosts(("a",), "a"), tmp_path)
        given = command[command.index("--checkpoint") + 1]
        assert locate(given) == last_of(given) == Path(given) / "phase2_best"


STOPPED = """
import os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[1])
def save(number, frame):
    (folder / "phase2_last").mkdir()
    (folder / "phase2_last" / "agents.json").write_text("update 7")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
(folder / "phase2_best.pth").write_text("update 5")
(folder / ".phase2_last.half").write_text("torn")
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()
"""


def test_a_job_that_is_stopped_leaves_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spot machine that is taken away, `StopTrainingJob`, `--max_hours`: SIGTERM, after which SageMaker uploads."""
    _root(tmp_path, HYPERPARAMETERS)
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "checkpoints")]
    monkeypatch.setattr(container, "training_command", lambda *_: command)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert container.main(["--root", str(tmp_path)]) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"phase2_best.pth", "phase2_last"}
    assert (tmp_path / "model/phase2_last/agents.json").read_text() == "update 7"
    assert last_of(tmp_path / "model").name == "phase2_last"
    assert not (tmp_path / "output/failure").exists()


@pytest.mark.slow
def test_a_container_trains_and_the_next_job_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SageMaker would run it, with an `/opt/ml` of the test's."""
    monkeypatch.chdir(REPOSITORY)
    job = {"orchestai_train": "deepcoder", "orchestai_config": "configs/agents/deepcoder.yaml"}
    words = {"model": "tiny", "training.phase2_rl.algorithm": "PPO", "sandbox.level": "process"}
    _root(tmp_path, job | words | {"training.phase2_rl.num_episodes": "2"})
    assert container.main(["--root", str(tmp_path)]) == 0
    first = (tmp_path / "checkpoints/phase2_metrics.jsonl").read_text().splitlines()
    _root(tmp_path, job | words | {"training.phase2_rl.num_episodes": "4"})
    assert container.main(["--root", str(tmp_path)]) == 0
    second = (tmp_path / "checkpoints/phase2_metrics.jsonl").read_text().splitlines()
    assert second[: len(first)] == first
    assert len(second) > len(first)
    assert any(path.name.startswith("phase2_best") for path in (tmp_path / "model").iterdir())


def _root(root: Path, hyperparameters: dict[str, str]) -> None:
    config = root / "input/config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hyperparameters.json").write_text(json.dumps(hyperparameters))
    hosts = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"}
    (config / "resourceconfig.json").write_text(json.dumps(hosts))
