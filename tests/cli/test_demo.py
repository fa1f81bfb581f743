"""The demo is the first thing a newcomer runs, often twice, often interrupted: finished stages must stay finished."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestai.cli.demo import Stages
from support.repository import importing


def test_an_interrupted_stage_runs_again(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stages(tmp_path, "a").run("collect", "about", interrupted)
    done = []
    Stages(tmp_path, "a").run("collect", "about", lambda: done.append(1))
    assert done == [1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_soon_even_in_the_background_and_it_goes_on(tmp_path, repository, number):
    """Shells start background jobs with Ctrl-C ignored: it had no effect on a demo for a minute."""
    command = [sys.executable, "-m", "orchestai.cli", "demo", "--output_dir", str(tmp_path / "demo")]
    logged = []
    for _ in range(2):
        process = subprocess.Popen(
            command,
            cwd=repository,
            env=importing(),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        wait_for(lambda: lines_in(tmp_path / "demo/execution_logs") > (logged or [0])[-1], process)
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 128 + number, said[-2000:]
        logged.append(lines_in(tmp_path / "demo/execution_logs"))
    assert logged[1] > logged[0]
    assert json.loads((tmp_path / "demo/stages.json").read_text())["finished"] == {}


def lines_in(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def wait_for(come: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + 240
    while not come():
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < give_up
        time.sleep(0.1)
