"""A run that goes on is shown to this machine alone, and never written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed (pip install 'orchestai[serve]')")

import threading

import httpx2 as httpx
import uvicorn

from orchestai.report import watch
from support.report import page as report_page
from support.report.folders import write_phase2


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
