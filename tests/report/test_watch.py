"""A run that goes on is shown to this machine alone, and never written to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed (pip install 'orchestai[serve]')")

import shutil
import signal
import subprocess
import sys
import threading
import time

import httpx2 as httpx
import uvicorn

from orchestai.errors import UserError
from orchestai.report import watch
from support.report import page as report_page
from support.report.folders import judged_record, served_record, write_log, write_phase2


@contextmanager
def watching(run: watch.WatchedRun) -> Iterator[str]:
    """The address at which a run is watched."""
    listening = watch._listen(0)
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(watch.application(run, port), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where `tmp_path / "run"` is watched."""
    (tmp_path / "page").mkdir()
    with watching(watch.WatchedRun([write_phase2(tmp_path / "run", updates=2)], tmp_path / "page")) as address:
        yield address


def points(page: Path) -> int:
    reward = next(curve for curve in report_page.data(page)["curves"] if curve["title"] == "Reward")
    return len(reward["series"][0]["points"])


def test_the_page_follows_the_run_which_stays_as_it_is(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(watch, "_REST", 0)
    shown = tmp_path / "shown.html"
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    shown.write_text(httpx.get(address).text)
    assert points(shown) == 2
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before
    with httpx.stream("GET", f"{address}/changes", timeout=30) as stream:
        events = stream.iter_lines()
        assert next(events) == ": watching"
        write_phase2(tmp_path / "run", updates=5)
        assert any(line == "event: changed" for line in events)
    shown.write_text(httpx.get(address).text)
    assert points(shown) == 5


def test_a_page_is_made_again_only_after_a_rest(tmp_path: Path) -> None:
    run = watch.WatchedRun([write_phase2(tmp_path / "run")], tmp_path)
    asyncio.run(run.refresh())
    write_phase2(tmp_path / "run", updates=5)
    run._took = 1000.0
    assert not run.due
    run._took = 0.0
    assert run.due


def test_new_feedback_on_served_runs_makes_a_page_though_no_log_has_changed(tmp_path: Path) -> None:
    said: dict[str, dict[str, object]] = {}
    down: list[UserError] = []

    def feedback() -> dict[str, dict[str, object]]:
        for error in down:
            raise error
        return dict(said)

    (tmp_path / "page").mkdir()
    logs = write_log(tmp_path / "logs", [served_record(0)])
    run = watch.WatchedRun([logs], tmp_path / "page", feedback=feedback)
    asyncio.run(run.refresh())
    run._took = 0.0
    assert not run.due
    said["r0"] = {"score": 1.0, "answer": None, "tests": None}
    assert run.due
    asyncio.run(run.refresh())
    assert [row["outcome"] for row in report_page.executions(run.page)] == ["solved"]
    run._took = 0.0
    down.append(UserError("the database is down"))
    assert not run.due


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "example.org"},
        {"host": "127.0.0.1:1"},
        {"origin": "http://example.org"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/", "/changes", "/watch.chunks/0.js"])
def test_other_hosts_and_origins_are_refused(address: str, path: str, headers: dict[str, str]) -> None:
    assert httpx.get(address + path, headers=headers).status_code == 403


def test_nothing_but_the_page_and_its_chunks_is_served(address: str, tmp_path: Path) -> None:
    for path in ("/phase2.run.json", "/watch.chunks/..%2f..%2frun%2fphase2.run.json", "/watch.chunks/0.js", "/../run"):
        assert httpx.get(address + path).status_code == 404
    reply = httpx.get(address, headers={"origin": address})
    assert reply.headers["x-frame-options"] == "DENY"
    assert "connect-src 'self'" in reply.text.replace("&#39;", "'")


def test_a_log_too_large_for_the_page_is_served_in_chunks(tmp_path: Path) -> None:
    logs = write_log(tmp_path / "logs", [judged_record()])
    with watching(watch.WatchedRun([logs], tmp_path, most_embedded=100)) as address:
        httpx.get(address)
        assert httpx.get(f"{address}/watch.chunks/0.js").text.startswith("orchestaiChunk(0,")


def test_a_removed_folder_is_told_in_words(address: str, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "run")
    reply = httpx.get(address)
    assert (reply.status_code, "no such file or folder" in reply.text) == (503, True)


def test_ctrl_c_is_how_a_watch_ends(tmp_path: Path) -> None:
    """It was told as an interrupted training, to be resumed."""
    command = [sys.executable, "-m", "orchestai.cli", "watch", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("watching at http://127.0.0.1:")
        time.sleep(1)  # until uvicorn listens to signals
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), process.stderr.read()) == (0, "")


def test_a_taken_port_and_an_absent_folder_are_refused_with_a_remedy(tmp_path: Path) -> None:
    with watch._listen(0) as taken:
        taken.listen()
        with pytest.raises(UserError, match="choose another --port"):
            watch.watch([tmp_path], taken.getsockname()[1], print)
    with pytest.raises(UserError, match="no such file"):
        watch.watch([tmp_path / "absent"], 0, print)
