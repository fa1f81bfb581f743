"""A wrong or unknown model name must be one clear line at once, and a cached model needs no network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from orchestai.errors import UserError
from orchestai.lm.local_models import locate
from support.models.language_model import save_tiny_model

KEY = "planner.language.model"


class Hub(BaseHTTPRequestHandler):
    """Knows `known/model`, is out of order for `broken/model`, and counts what it is asked."""

    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            self.asked.append(self.path)
        status = {"/api/models/known/model": 200, "/api/models/broken/model": 503}.get(self.path, 404)
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        body = b'{"id": "known/model", "siblings": []}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    Hub.asked.clear()
    yield Hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with `cached/model`; the hub's port is closed."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    model, commit = tmp_path / "hub" / "models--cached--model", "0" * 40
    save_tiny_model(model / "snapshots" / commit)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    return model / "snapshots" / commit


def refused(name: str) -> str:
    with pytest.raises(UserError) as error:
        locate(name, KEY)
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith(f"{KEY}: ")
    return said


def test_the_hub_is_asked_once(hub: type[Hub]) -> None:
    assert locate("known/model", KEY) == "known/model"
    assert hub.asked == ["/api/models/known/model"]
    assert "the hub has no model of this name" in refused("unknown/model")
    assert hub.asked[1:] == ["/api/models/unknown/model"]
    assert "is no folder here, and no name on the hub" in refused("a/b/c")
    assert len(hub.asked) == 2


def test_without_a_network_the_cache_has_it_or_nobody(cache: Path) -> None:
    assert locate("cached/model", KEY) == str(cache)
    assert "the hub cannot be reached" in refused("other/model")
