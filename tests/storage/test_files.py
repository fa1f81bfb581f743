"""An artifact is whole or absent: an interrupted or impossible write must leave what was there before."""

from __future__ import annotations

import json
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
from orchestai.storage.artifacts import fingerprint, replacing, write_json
from orchestai.storage.byte_store import ByteStore
from orchestai.storage.folder_lock import locked
from support.agents import sample as agents_sample


def test_a_failure_half_way_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"{")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["result.json"]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"reward": float("nan")})


def test_fingerprints_ignore_key_order_and_see_values():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 1, "b": 3})


# What is kept on disk must be what was computed, whoever wrote there since, and must not fill the disk.


MANY = 1 << 30


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_saved_is_found_by_its_key_alone(tmp_path):
    store = ByteStore(tmp_path, MANY)
    store.save("one", b"\0first")
    store.save("two", b"")
    again = ByteStore(tmp_path, MANY)
    assert (again.load("one"), again.load("two"), again.load("three")) == (b"\0first", b"", None)


def test_the_bytes_are_bounded_and_what_was_used_lately_stays(tmp_path):
    store = ByteStore(tmp_path, 1 << 20)
    store.save("kept", bytes(50_000))
    for i in range(100):
        store.save(str(i), bytes(50_000))
        assert store.load("kept") is not None
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.val")) < 1.2 * (1 << 20)
    assert store.load("99") is not None
    assert store.load("0") is None


def test_what_is_damaged_counts_as_absent(tmp_path, caplog):
    store = ByteStore(tmp_path, MANY)
    store.save("large", bytes(100_000))
    (file,) = tmp_path.rglob("*.val")
    file.write_bytes(file.read_bytes()[:-1])
    assert store.load("large") is None
    assert "damaged" in caplog.text


# One process writes into a folder at a time; a second one is told whose it is, and a dead one holds nothing.


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
        pytest.raises(UserError, match="another process"),
    ):
        agents_sample.trainer(tmp_path / "agents", agents_sample.settings()).train()
