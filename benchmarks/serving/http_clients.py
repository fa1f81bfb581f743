"""CPU time of one request to a worker's server: our HTTP client, OpenAI's, and OpenAI's over aiohttp.

    python -m benchmarks.serving.http_clients [--requests 2000] [--json docs/results/http_clients.json]

The server is a process of its own and answers in 20 ms; 16 requests are under way at a time, in rounds that alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from openai import AsyncOpenAI, DefaultAioHttpClient

from benchmarks.serving.load import wait_for, worker_server
from orchestai.storage import artifacts
from orchestai.workers.http_client import HttpClient

AT_A_TIME, ROUNDS = 16, 5
MESSAGES = [{"role": "user", "content": "Which of Rome and Oslo is larger?"}]


async def measure(url: str, requests: int) -> dict[str, Any]:
    """Microseconds of this process's CPU time per request, in each round."""
    ours = HttpClient(url, "none", 30.0)
    theirs = {
        "openai": AsyncOpenAI(base_url=url, api_key="none"),
        "openai[aiohttp]": AsyncOpenAI(base_url=url, api_key="none", http_client=DefaultAioHttpClient()),
    }
    body = json.dumps({"model": "quick", "messages": MESSAGES}).encode()

    def asking(client: AsyncOpenAI) -> Callable[[], Awaitable[Any]]:
        completions = client.chat.completions.with_raw_response
        return lambda: completions.create(model="quick", messages=(), extra_body={"messages": MESSAGES})

    clients: dict[str, Callable[[], Awaitable[Any]]] = {
        "orchestai": lambda: ours.ask("/chat/completions", body, {}, 30.0)
    }
    clients |= {name: asking(client) for name, client in theirs.items()}
    took: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(ROUNDS):
        for name, ask in clients.items():
            began = time.process_time()
            await together(ask, requests // ROUNDS)
            took[name].append((time.process_time() - began) / (requests // ROUNDS) * 1e6)
    await ours.close()
    for client in theirs.values():
        await client.close()
    return {
        name: {"median_us": round(median(each)), "rounds_us": [round(one) for one in each]}
        for name, each in took.items()
    }


async def together(ask: Callable[[], Awaitable[Any]], requests: int) -> None:
    left = iter(range(requests))

    async def one_by_one() -> None:
        for _ in left:
            await ask()

    await asyncio.gather(*(one_by_one() for _ in range(AT_A_TIME)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="of each client")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(target=worker_server, args=(port,), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{port}/v1"
        wait_for(f"{url}/models")
        report = {
            "requests": given.requests,
            "at_a_time": AT_A_TIME,
            "cpu_per_request": asyncio.run(measure(url, given.requests)),
        }
    finally:
        server.terminate()
        server.join()
    report["versions"] = {name: version(name) for name in ("openai", "aiohttp")} | artifacts.versions()
    print(json.dumps(report, indent=1))
    if given.json is not None:
        artifacts.write_json(given.json, report)


if __name__ == "__main__":
    main()
