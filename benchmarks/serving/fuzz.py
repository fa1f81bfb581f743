"""What a server does with requests that are nearly right, wrong, or none at all: ends them, and tells no secret.

    python -m benchmarks.serving.fuzz [--database postgresql] [--requests 10000] [--json docs/results/fuzz.json]

`orchestai serve` runs as a process of its own, needs a key, and asks models over HTTP that answer, call tools, or send
garbage. Faults are: a status of 500, an error that is not in OpenAI's format, no reply at all, a traceback or a key in
an answer or in the log, and, at the end, runs in work or money that is still reserved. The exit code is 1 where
there were faults.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from benchmarks.serving.databases import KINDS, database_url
from benchmarks.serving.load import wait_for
from orchestai.serving.store import Database, KeyLedger, KeyStore, ServedRuns
from orchestai.storage import artifacts
from support.models.model_server import model_server
from support.serving.fuzzed import FEEDBACK, Fuzzed, fuzzed

AT_A_TIME = 16
DEADLINE_S = 2.0
WORKER_KEY = "sk-worker-0123456789"
MODELS = ("talking", "calling", "garbage", "half", "failing")


def configuration(url: str, database: str) -> dict[str, Any]:
    model = {"kind": "openai_api", "base_url": url, "api_key_env": "FUZZED_WORKER_KEY", "max_retries": 0}
    worker = {"kind": "model", "strategy": "chat", "max_new_tokens": 64, "price_per_mtok_out_usd": 1}
    return {
        "workers": {
            "models": {name: {**model, "name": name} for name in MODELS},
            "pool": {name: {**worker, "model": name, "card": name} for name in MODELS},
            "cascade": ["talking", "calling"],
            "cache_dir": None,
        },
        "tasks": {"suite": "gsm8k"},
        "execution": {"assembler": "sink"},
        "serving": {
            "database": database,
            "require_keys": True,
            "max_body_bytes": 65536,
            "deadline_s": DEADLINE_S,
            "failures": 1_000_000,
        },
        "contract": {"deadline_s": DEADLINE_S},
    }


async def send(client: httpx2.AsyncClient, request: Fuzzed, key: str) -> tuple[str, dict[str, Any]]:
    """The status, and what was wrong with the reply by kind of fault."""
    headers = {"authorization": f"Bearer {key}".encode(), "content-type": b"application/json", **request.headers}
    try:
        reply = await client.request(request.method, request.path, content=request.body, headers=headers)
    except httpx2.TransportError as error:
        return "no reply", {"no reply": repr(error)}
    faults: dict[str, Any] = {}
    if reply.status_code == 500:
        faults["status"] = reply.text
    if leaks(reply.text + str(reply.headers), key):
        faults["leak"] = reply.text
    is_error = reply.status_code >= 400 and request.method != "HEAD"
    if is_error and not isinstance(error_of(reply), dict):
        faults["format"] = reply.text[:200]
    return str(reply.status_code), faults


def error_of(reply: httpx2.Response) -> Any:
    try:
        return reply.json().get("error")
    except (ValueError, AttributeError):
        return None


def leaks(text: str, key: str) -> bool:
    return any(secret in text for secret in ("Traceback", WORKER_KEY, key))


async def fuzz(url: str, key: str, numbers: range) -> tuple[Counter[str], list[dict[str, Any]]]:
    statuses: Counter[str] = Counter()
    faulty: list[dict[str, Any]] = []
    left = iter(numbers)

    async def ask(client: httpx2.AsyncClient) -> None:
        for number in left:
            request = fuzzed(number)
            status, faults = await send(client, request, key)
            statuses[status] += 1
            if faults:
                faulty.append({"number": number, "path": request.path, "faults": faults})
                print(json.dumps(faulty[-1])[:600], flush=True)

    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        await asyncio.gather(*(ask(client) for _ in range(AT_A_TIME)))
    return statuses, faulty


def fuzzed_server(folder: Path, address: str, given: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """What came of it, and the server's log."""
    url = f"http://127.0.0.1:{given.port}"
    with Database.open(address) as database:
        key = KeyStore(database).add("fuzzer", 1000.0)
        ServedRuns(database).put(FEEDBACK["run_id"], "fuzzer", None, {}).result()
    command = [sys.executable, "-m", "orchestai.cli", "serve", "--port", str(given.port)]
    with model_server() as models, (folder / "log").open("wb") as log:
        (folder / "config.yaml").write_text(json.dumps(configuration(models.url, address)))
        environment = {**os.environ, "FUZZED_WORKER_KEY": WORKER_KEY}
        server = subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, env=environment)
        try:
            wait_for(f"{url}/healthz")
            began = time.monotonic()
            statuses, faulty = asyncio.run(fuzz(url, key, range(given.seed, given.seed + given.requests)))
            seconds = time.monotonic() - began
            metrics = httpx2.get(f"{url}/metrics", headers={"authorization": f"Bearer {key}"}).text
        finally:
            server.terminate()
            server.wait(60)
    said = (folder / "log").read_text(errors="replace")
    with Database.open(address, lease_s=5) as database:
        left_usd = KeyLedger(database, "fuzzer").available_usd
        reserved = [row for row in reserved_of(database) if row]
    report = {
        "database": given.database,
        "requests": given.requests,
        "seconds": round(seconds, 1),
        "statuses": dict(sorted(statuses.items())),
        "faulty": len(faulty),
        "leaks_in_log": leaks(said, key),
        "in_flight_at_the_end": float(metrics.split("\norchestai_in_flight ")[1].split("\n")[0]),
        "still_reserved": reserved,
        "spent_usd": round(1000.0 - left_usd, 9),
    }
    return report, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first request")
    parser.add_argument("--port", type=int, default=18721)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # of the models, which break off on purpose
    with tempfile.TemporaryDirectory() as name, database_url(given.database, Path(name)) as database:
        report, said = fuzzed_server(Path(name), database, given)
    print(json.dumps(report, indent=1))
    if report["leaks_in_log"]:
        print(said[:4000])
    if given.json is not None:
        artifacts.write_json(given.json, report)
    return int(any(report[fault] for fault in ("faulty", "leaks_in_log", "in_flight_at_the_end", "still_reserved")))


def reserved_of(database: Database) -> list[int]:
    """What is reserved of each day."""
    from sqlalchemy import select

    from orchestai.serving.store.tables import days

    with database.reading() as connection:
        return list(connection.scalars(select(days.c.reserved)))


if __name__ == "__main__":
    sys.exit(main())
