"""One process writes into a folder at a time; a second one is told whose it is, and a dead one holds nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestai.cli import main
from orchestai.errors import UserError
from orchestai.storage.folder_lock import locked
from support.agents import sample as agents_sample

_HOLD = """
import sys, time
from pathlib import Path
from orchestai.storage.folder_lock import locked
with locked(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def another_process(folder: Path, name: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """It holds the folder until it is killed."""
    command = [sys.executable, "-c", _HOLD, str(folder), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_who_comes_second_learns_who_is_there_and_what_to_do(tmp_path: Path) -> None:
    with another_process(tmp_path / "out", "phase2") as process:
        with pytest.raises(UserError) as refused, locked(tmp_path / "out", "phase2"):
            pass
        with locked(tmp_path / "out", "phase1"), locked(tmp_path / "other", "phase2"):
            pass
        assert not (tmp_path / "other").exists(), "nothing was written there"
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'out'}: another process writes here (process {process.pid} on ")
    assert socket.gethostname() in said
    assert "UTC: -c" in said
    assert str(tmp_path / "out") + " phase2)" in said
    assert said.endswith("choose another output folder (--output_dir, output_dir=)")
    assert "\n" not in said


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with another_process(tmp_path, "phase2") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert [path.name for path in tmp_path.iterdir()] == [".phase2.lock"]
        with locked(tmp_path, "phase2"):
            assert f"process {os.getpid()} " in (tmp_path / ".phase2.lock").read_text()
    assert list(tmp_path.iterdir()) == []


def test_training_refuses_a_folder_that_another_process_trains_into(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs in one folder overwrote each other's checkpoints, and both ended well."""
    (tmp_path / "config.yaml").write_text((repository / "config.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    for phase, command in (
        ("phase1", ["train-phase1", "--data", "none.json"]),
        ("phase2", ["train-phase2", "--checkpoint", "none.pth"]),
    ):
        with another_process(tmp_path / "out", phase) as process:
            monkeypatch.setattr(sys, "argv", ["orchestai", *command, "--output_dir", "out"])
            with pytest.raises(SystemExit) as left:
                main()
            assert left.value.code == 2
            assert f"out: another process writes here (process {process.pid} on" in capsys.readouterr().err
    with (
        another_process(tmp_path / "agents", "phase2"),
        pytest.raises(UserError, match="agents: another process writes here"),
    ):
        agents_sample.trainer(tmp_path / "agents", agents_sample.settings()).train()
