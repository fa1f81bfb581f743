"""`init`, `doctor` and `run` as a newcomer types them: from a server's address to an answer and its replay."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestai.cli import app
from orchestai.config import load_config
from orchestai.errors import UserError
from orchestai.execution.log import read_log
from support.models.chat_server import ChatServer, Reply, chat, serving
from support.serving.contract_workers import PRICE

PAID = {"price_per_call_usd": PRICE}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as running:
        running.after = Reply(chat("Paris"))
        yield running


def orchestai(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_from_a_server_to_an_answer_and_its_replay(server: ChatServer, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert orchestai("init", "--server", server.url, "--price", "tiny=1,2").exit_code == 0
    config = load_config("config.yaml")
    assert config.workers.cascade[-1] == "tiny"
    assert config.workers.pool["tiny"].price_per_mtok_out_usd == 2
    assert isinstance(orchestai("init", "--server", server.url).exception, UserError), "nothing is overwritten"

    examined = orchestai("doctor")
    assert examined.exit_code == 0, examined.output
    assert "ok      workers: tiny, calculator" in examined.output

    limits = ("--max_cost_usd", "0.01", "--deadline_s", "30")
    asked = orchestai("run", "What is the capital of France?", *limits, "--json", "workers.cache_dir=null")
    assert asked.exit_code == 0, (asked.output, asked.exception)
    result = json.loads(asked.stdout)
    assert result["answer"] == "Paris"
    assert "Python" not in json.dumps(server.asked[-1]), "a newcomer's question was put as a function to write"
    receipt = result["receipt"]
    assert receipt["spent_usd"] == pytest.approx((11 * 1 + 3 * 2) / 1e6)
    assert receipt["spent_usd"] <= receipt["reserved_usd"] <= receipt["contract"]["max_cost_usd"]

    before = len(server.asked)
    again = orchestai(*receipt["replay"].split()[1:])
    assert "the same answer" in again.output
    assert again.stdout.splitlines()[-1] == "Paris"
    assert len(server.asked) == before

    shown = orchestai("run", "What is the capital of France?", "workers.cache_dir=null")
    assert shown.stdout.splitlines() == ["Paris"]
    assert "What is the capital of France?: tiny" in shown.stderr
    assert "complete: spent" not in shown.stderr
    assert (
        "complete: spent" in orchestai("run", "What is the capital of France?", "-v", "workers.cache_dir=null").stderr
    )


def test_what_cannot_be_is_said_before_anybody_is_asked(server: ChatServer, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert orchestai("init", "--server", server.url, "--price", "tiny=1,2").exit_code == 0
    for words, said in (
        (("--max_cost_usd", "1e-9", "--allow", "tiny"), "max_cost_usd=1e-09: this plan has 1 step"),
        (("--allow", "nobody"), "allow: no worker 'nobody'"),
        (("--answer", "poem"), "either program or text"),
        (("--replay", "absent.jsonl#run-1"), "absent.jsonl: no such log"),
    ):
        asked = orchestai("run", *(() if "--replay" in words else ("Say hello.",)), *words)
        assert isinstance(asked.exception, UserError), (words, asked.output)
        assert said in str(asked.exception)
    assert server.asked == []


def own_workers(folder: Path, *names: str) -> tuple[list[str], dict[str, str]]:
    """The command that asks the first of these workers, in a folder with its configuration, and its environment."""
    pool = {
        name: {"kind": "function", "function": f"support.serving.contract_workers:{name}", "card": name, **PAID}
        for name in names
    }
    workers = {"pool": pool, "cache_dir": None, "cascade": [names[0]]}
    config = {"workers": workers, "planner": {"base": "none"}, "sandbox": {"level": "process"}}
    (folder / "config.yaml").write_text(json.dumps(config))
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "orchestai.cli", "run", "Say it.", "--json", "--answer", "text"]
    return command, {**os.environ, "PYTHONPATH": path}


def test_stdout_is_the_answer_alone_and_a_deaf_worker_does_not_hold_the_command(tmp_path: Path) -> None:
    command, environment = own_workers(tmp_path, "printing", "deaf")

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True)

    printed = run()
    assert json.loads(printed.stdout)["answer"] == "printed", printed.stderr
    assert "working on it" in printed.stderr
    cut_off = run("--deadline_s", "0.5", "workers.cascade=[deaf]")
    assert cut_off.returncode == 1
    assert json.loads(cut_off.stdout)["receipt"]["status"] == "failed"


def test_an_interrupted_run_leaves_its_line_in_the_log(tmp_path: Path) -> None:
    command, environment = own_workers(tmp_path, "waiting")
    # What is started in the background of a script ignores Ctrl-C, and so would this.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )
    assert process.stderr is not None
    assert any("waiting for Ctrl-C" in line for line in process.stderr), "the worker was not asked"
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    (record,) = read_log(tmp_path / "execution_logs").records
    assert (record.error, record.outcome, record.answer) == ("interrupted", "unjudged", "")
    assert record.receipt is not None
    assert (record.receipt.status, record.receipt.calls) == ("failed", 1)
    assert record.receipt.spent_usd == record.receipt.unsettled_usd == PRICE
