"""An orchestrator behind a real server, in a thread of its own."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from orchestai import Orchestrator
from orchestai.answering import Resilience
from orchestai.config import Config
from orchestai.execution.log import keeping
from orchestai.serving.api.server import listen, make_server
from orchestai.serving.api.service import text_change
from support.serving.contract_workers import PRICE

if TYPE_CHECKING:
    from orchestai.serving.tracing import Tracing


@dataclass(frozen=True)
class Served:
    """A server that was started; `client` asks it."""

    url: str
    client: httpx2.Client
    orchestrator: Orchestrator

    def chat(self, content: str = "Say something.", **more: Any) -> httpx2.Response:
        """One message to the default model, with further fields of the request."""
        body = {"model": "orchestai", "messages": [{"role": "user", "content": content}], **more}
        return self.client.post("/v1/chat/completions", json=body)


def functions(*names: str) -> dict[str, Any]:
    """Workers of `support.serving.contract_workers`."""
    return {
        name: {
            "kind": "function",
            "function": f"support.serving.contract_workers:{name}",
            "card": name,
            "price_per_call_usd": PRICE,
        }
        for name in names
    }


def models(url: str, *names: str, **more: Any) -> dict[str, Any]:
    """`workers` with language models at a server."""
    model = {"kind": "openai_api", "base_url": url, "max_retries": 0}
    pool = {
        name: {
            "kind": "model",
            "model": name,
            "strategy": "chat",
            "card": name,
            "max_new_tokens": 64,
            "price_per_mtok_in_usd": 1.0,
            "price_per_mtok_out_usd": 4.0,
        }
        for name in names
    }
    return {"models": {name: {**model, "name": name, **more} for name in names}, "pool": pool}


def settings(workers: dict[str, Any], cascade: Sequence[str] = (), **sections: Any) -> Config:
    """A configuration whose answers are texts of its cascade; its database is thrown away with the process."""
    serving = {"database": f"sqlite:///{tempfile.mkdtemp()}/served.db", **sections.pop("serving", {})}
    return Config(
        workers={"cascade": cascade, "cache_dir": None, **workers},
        planner={"base": "none", **sections.pop("planner", {})},
        tasks={"suite": "gsm8k"},
        execution={"assembler": "sink", **sections.pop("execution", {})},
        sandbox={"level": "process"},
        serving=serving,
        **sections,
    )


@contextmanager
def serving(
    config: Config, log: Path | None = None, tracing: Tracing | None = None, **waits: float
) -> Iterator[Served]:
    """A server with this configuration, until the block ends; `waits` are fields of `Resilience`."""
    of = config.serving
    change = text_change(of)
    resilience = Resilience(failures=of.failures, slow_s=0.2, **waits)
    orchestrator = Orchestrator.open(None, config, log=log, resilience=resilience, keep=change and keeping(change))
    listening = listen("127.0.0.1", 0)
    server = make_server(orchestrator, tracing)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx2.Client(base_url=url, timeout=60) as client:
            yield Served(url, client, orchestrator)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
