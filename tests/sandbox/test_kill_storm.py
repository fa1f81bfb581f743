"""Verdicts while somebody kills the sandbox's processes: 15 of 6,000 were wrong and 155 lost before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.levels import find_namespaces

pytestmark = pytest.mark.skipif(
    not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}"
)


def storm(repository: Path, folder: Path, programs: int, kills: int, every_s: float) -> dict[str, object]:
    command = [
        sys.executable,
        str(repository / "benchmarks" / "hostile" / "kill_storm.py"),
        "--json",
        str(folder / "figures.json"),
    ]
    command += ["--programs", str(programs), "--kills", str(kills), "--every_s", str(every_s)]
    subprocess.run(
        command, env={"TMPDIR": str(folder), "PYTHONPATH": str(repository)}, capture_output=True, check=False
    )
    figures: dict[str, object] = json.loads((folder / "figures.json").read_text())
    return figures


FAULTS = ("wrong", "lost", "processes_left", "folders_left")


def test_no_verdict_is_wrong_or_lost_while_processes_are_killed(repository, tmp_path):
    figures = storm(repository, tmp_path, programs=100, kills=4, every_s=0.5)
    assert {name: figures[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), figures["examples"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_nor_in_a_long_storm(repository, tmp_path):
    figures = storm(repository, tmp_path, programs=2000, kills=10, every_s=1.0)
    assert {name: figures[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), figures["examples"]
