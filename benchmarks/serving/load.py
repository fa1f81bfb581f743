"""What the endpoint adds to a worker that answers in 20 ms over HTTP, by how many clients ask at a time.

Each number of clients asks the worker's server directly, through `orchestai serve`, and through RouteLLM's server where
one is installed, in turn and several times, so that all have the same machine. Servers are processes of their own.

    python benchmarks/serving/load.py --routellm VENV/bin/python --soak 20000 --output docs/results/serving.json

RouteLLM lives in an environment of its own: `pip install 'routellm[serve]'`. Its router draws at random, so that it
computes nothing, and its strong and its weak model are the worker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2

ANSWER_S = 0.02
CLIENTS = (1, 16, 64, 200)
QUESTION = "Which of Rome and Oslo is larger?"
MODELS = {"direct": "quick", "orchestai": "orchestai", "routellm": "router-random-0.5"}


def worker_server(port: int) -> None:
    """Serve a model that answers after 20 ms."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    reply = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "quick",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Rome."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14},
    }

    async def answer(request: Any) -> JSONResponse:
        await request.body()
        await asyncio.sleep(ANSWER_S)
        return JSONResponse(reply)

    async def models(request: Any) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": "quick", "object": "model"}]})

    routes = [Route("/v1/chat/completions", answer, methods=["POST"]), Route("/v1/models", models)]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error", access_log=False)


def configuration(port: int, folder: Path) -> str:
    return f"""
workers:
  models: {{quick: {{kind: openai_api, name: quick, base_url: "http://127.0.0.1:{port}/v1"}}}}
  pool:
    quick: {{kind: model, model: quick, strategy: chat, card: quick, max_new_tokens: 64, price_per_mtok_in_usd: 1}}
  cascade: [quick]
  cache_dir: null
tasks: {{suite: gsm8k}}
execution: {{assembler: sink}}
serving: {{database: "sqlite:///{folder}/served.db"}}
"""


async def load(url: str, model: str, clients: int, requests: int) -> dict[str, float]:
    """Milliseconds per request, requests per second, and failures, of so many clients that ask one after the other."""
    times: list[float] = []
    failures = 0
    left = iter(range(requests))
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)

    async def ask(client: httpx2.AsyncClient) -> None:
        nonlocal failures
        for number in left:
            content = f"{QUESTION} ({number} of {clients})"
            body = {"model": model, "messages": [{"role": "user", "content": content}]}
            began = time.perf_counter()
            reply = await client.post(f"{url}/v1/chat/completions", json=body)
            times.append(1000 * (time.perf_counter() - began))
            failures += reply.status_code != 200

    began = time.perf_counter()
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        await asyncio.gather(*(ask(client) for _ in range(clients)))
    seconds = time.perf_counter() - began
    cuts = quantiles(times, n=20)
    return {"p50_ms": cuts[9], "p95_ms": cuts[18], "per_second": requests / seconds, "failures": failures}


def wait_for(url: str) -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        try:
            if httpx2.get(url, timeout=5).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


def resources(pid: int) -> dict[str, float]:
    """Megabytes and descriptors of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {"rss_mb": pages * os.sysconf("SC_PAGE_SIZE") / 2**20, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def settled(pid: int, descriptors: float) -> dict[str, float]:
    """What a process holds once it has no more descriptors than before, or after two minutes, and after how long."""
    began = time.monotonic()
    while (held := resources(pid))["descriptors"] > descriptors and time.monotonic() - began < 120:
        time.sleep(0.5)
    return {**held, "after_s": round(time.monotonic() - began, 1)}


def peer(python: Path, port: int, worker: str, log: Path) -> subprocess.Popen[bytes]:
    """RouteLLM's server in front of the worker."""
    model = "openai/quick"
    settings = ["--routers", "random", "--strong-model", model, "--weak-model", model, "--api-key", "none"]
    command = [
        str(python),
        "-m",
        "routellm.openai_server",
        *settings,
        "--base-url",
        f"{worker}/v1",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
    with log.open("wb") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians over the rounds, and what each server adds to the worker."""
    kinds = sorted({(row["clients"], row["who"]) for row in rows}, key=lambda kind: (kind[0], kind[1] != "direct"))
    medians: list[dict[str, Any]] = []
    for clients, who in kinds:
        own = [row for row in rows if (row["clients"], row["who"]) == (clients, who)]
        figures = {
            name: round(median(row[name] for row in own), 2) for name in ("p50_ms", "p95_ms", "per_second", "cpu_ms")
        }
        direct = next((row for row in medians if row["clients"] == clients), figures)
        added = {f"added_{name}": round(figures[name] - direct[name], 2) for name in ("p50_ms", "p95_ms")}
        failures = sum(row["failures"] for row in own)
        medians.append({"clients": clients, "who": who, **figures, **added, "failures": failures})
    return medians


def cpu_s(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--requests", type=int, default=400, help="per round, but at least 8 per client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18701)
    parser.add_argument("--soak", type=int, default=0, help="so many requests of 16 clients at the end")
    parser.add_argument("--routellm", type=Path, help="the Python of an environment with RouteLLM")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker_server(given.port)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text(configuration(given.port, folder))
        worker = subprocess.Popen([sys.executable, __file__, "--worker", "--port", str(given.port)])
        processes, servers = [worker], {"direct": worker}
        command = [sys.executable, "-m", "orchestai.cli", "serve", "--port", str(given.port + 1)]
        direct, served, routed = (f"http://127.0.0.1:{given.port + place}" for place in (0, 1, 2))
        urls = {"direct": direct, "orchestai": served}
        try:
            wait_for(f"{direct}/v1/models")
            server = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
            processes.append(server)
            servers["orchestai"] = server
            wait_for(f"{served}/healthz")
            if given.routellm is not None:
                urls["routellm"] = routed
                servers["routellm"] = peer(given.routellm, given.port + 2, direct, folder / "routellm.log")
                processes.append(servers["routellm"])
                wait_for(f"{routed}/openapi.json")
            for who, url in urls.items():
                asyncio.run(load(url, MODELS[who], 4, 40))
            rows = []
            for clients in CLIENTS:
                requests = max(given.requests, 8 * clients)
                for round_ in range(given.rounds):
                    for who, url in urls.items():
                        before_s = cpu_s(servers[who].pid)
                        row = {"clients": clients, "round": round_, "who": who}
                        row |= asyncio.run(load(url, MODELS[who], clients, requests))
                        cpu_ms = 1000 * (cpu_s(servers[who].pid) - before_s) / requests
                        rows.append({**row, "cpu_ms": cpu_ms, "load_average": os.getloadavg()[0]})
                        print(json.dumps(rows[-1]), flush=True)
            soak = None
            if given.soak:
                before = resources(server.pid)
                soaked = asyncio.run(load(served, MODELS["orchestai"], 16, given.soak))
                soak = {"requests": given.soak, "before": before, **soaked}
                soak["after"] = resources(server.pid)
                soak["settled"] = settled(server.pid, before["descriptors"])
                print(json.dumps(soak), flush=True)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(60)
    report = {"answer_s": ANSWER_S, "medians": compared(rows), "soak": soak, "rows": rows}
    for row in report["medians"]:
        print(json.dumps(row))
    if given.output:
        given.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
