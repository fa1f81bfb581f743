"""A real HTTP server that speaks the chat protocol of OpenAI, and fails on cue."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def chat(content: str | None = "out STOP rest", finish_reason: str = "stop", **more: Any) -> dict[str, Any]:
    """A whole answer; `more` replaces or adds fields, and None takes one out."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice]}
    return {name: value for name, value in {**answer, "usage": USAGE, **more}.items() if value is not None}


def error(message: str = "fault", **more: Any) -> dict[str, Any]:
    """An error as OpenAI describes it."""
    return {"error": {"message": message, **more}}


@dataclass(frozen=True)
class Reply:
    """What the server says to one request.

    Attributes:
        body: sent as JSON, or as it is.
        headers: beside the usual ones. Waits of the client are cut short by `retry-after-ms`, unless they say else.
        missing: bytes that are promised beyond those that are sent.
        silent: nothing is said until the server closes.
        drops: the connection is closed without an answer.
    """

    body: Any = field(default_factory=chat)
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})
    missing: int = 0
    silent: bool = False
    drops: bool = False


class ChatServer(ThreadingHTTPServer):
    """Answers with the next of `script`, then with `after`; keeps what it was asked.

    Attributes:
        lists: replies to GET by path, once there are any; other paths are not found.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Reply] = []
        self.after = Reply()
        self.lists: dict[str, Reply] = {}
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.headers: list[Mapping[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.closing = threading.Event()

    def next(self) -> Reply:
        return self.script.pop(0) if self.script else self.after


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_GET(self) -> None:
        if self.server.lists:
            self.server.keys.append(self.headers["Authorization"])
            self._say(self.server.lists.get(self.path, Reply(b"404 page not found", 404, "text/plain")))
            return
        reply = self.server.next()
        models = {"object": "list", "data": [{"id": "tiny", "object": "model", "created": 0, "owned_by": "tests"}]}
        self._say(Reply(models) if reply is self.server.after else reply)

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.paths.append(self.path)
        self.server.keys.append(self.headers["Authorization"])
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self._say(self.server.next())

    def _say(self, reply: Reply) -> None:
        if reply.silent:
            self.server.closing.wait()
        if reply.silent or reply.drops:
            self.close_connection = True
            return
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        try:
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data) + reply.missing))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has given up, as a test wants it to
            pass

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[ChatServer]:
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
