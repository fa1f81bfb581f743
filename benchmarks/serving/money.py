"""Many clients on one key with a budget, while servers are killed: is anything overspent or lost, is the ledger right?

    python -m benchmarks.serving.money --database sqlite --kills 20 --json docs/results/money-sqlite.json
    python -m benchmarks.serving.money --database postgresql --kills 20 --json docs/results/money-postgresql.json

Two servers (`orchestai serve`) share a database. Their workers write every bill to a file before they answer, which is
what was really spent, whatever becomes of the server. Clients (`openai`'s) ask again and again; one server after the
other is killed by SIGKILL and started again. After each restart, once the dead server's lease is over, the ledger must
be right: nothing is reserved for the dead, the day's sums are those of its reservations, and bills <= spent + reserved
<= budget. At the end every run that was begun ended, with a receipt, or is known to be lost, and every answer that a
client got is there. PostgreSQL is a private cluster in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI
from sqlalchemy import func, select

from benchmarks.serving.databases import KINDS, database_url
from benchmarks.serving.money_workers import BILLS, PRICE_USD
from orchestai.execution.contract.ledger import usd, whole
from orchestai.execution.log import read_log
from orchestai.serving.store import Database, KeyStore
from orchestai.serving.store.tables import days, reservations, served, servers
from orchestai.storage import artifacts

KEY, LEASE_S, SERVERS, START_S = "money", 2.0, 2, 120.0


@dataclass
class Server:
    """One process that serves, on a port of its own."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, BILLS: str(self.folder / "bills"), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "orchestai.cli", "serve", "--config", str(self.folder / "config.yaml")]
        command += ["--port", str(self.port), "--logs", str(self.folder / "logs")]
        log = (self.folder / f"server-{self.port}.log").open("ab")
        self.process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)

    def is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=2) as reply:
                return bool(reply.status == 200)
        except (URLError, OSError):
            return False

    def end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()


@dataclass
class Clients:
    """What happened to their requests.

    Attributes:
        answered: run ids of the answers that came.
    """

    answered: dict[str, float] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    over: bool = False

    async def ask(self, secret: str, ports: list[int]) -> None:
        """Be one client until it is over."""
        servers = [
            AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=secret, max_retries=0, timeout=30)
            for port in ports
        ]
        while not self.over:
            client = random.choice(servers)
            try:
                reply = await client.chat.completions.create(
                    model="orchestai", messages=[{"role": "user", "content": "Say something."}]
                )
            except (APIConnectionError, APITimeoutError):
                self.outcomes["cut off"] += 1
                await asyncio.sleep(0.2)
            except APIStatusError as error:
                self.outcomes[f"{error.status_code} {error.code}"] += 1
                await asyncio.sleep(0.2)
            else:
                self.outcomes["200"] += 1
                run = (reply.model_extra or {})["orchestai"]
                self.answered[run["run_id"]] = run["spent_usd"]
        for client in servers:
            await client.close()


@dataclass(frozen=True)
class Ledger:
    """What the database says of the key's money."""

    reserved: int
    spent: int
    open_reservations: int
    of_the_dead: int
    is_summed: bool

    @classmethod
    def of(cls, database: Database) -> Ledger:
        of_open = reservations.c.spent.is_(None)
        with database.reading() as connection:
            reserved = connection.scalar(select(func.coalesce(func.sum(days.c.reserved), 0)))
            spent = connection.scalar(select(func.coalesce(func.sum(days.c.spent), 0)))
            held = connection.scalar(select(func.coalesce(func.sum(reservations.c.amount), 0)).where(of_open))
            paid = connection.scalar(select(func.coalesce(func.sum(reservations.c.spent), 0)))
            count = connection.scalar(select(func.count()).where(of_open).select_from(reservations))
            alive = select(servers.c.id)
            dead = connection.scalar(
                select(func.count()).select_from(reservations).where(of_open, reservations.c.server.not_in(alive))
            )
        return cls(int(reserved), int(spent), int(count), int(dead), (reserved, spent) == (held, paid))


def configure(folder: Path, url: str) -> None:
    about = {"kind": "function", "price_per_call_usd": PRICE_USD, "concurrency": 256}
    names = ("shaky", "steady", "slow")
    pool = {name: {**about, "card": name, "function": f"benchmarks.serving.money_workers:{name}"} for name in names}
    config = {
        "workers": {"pool": pool, "cascade": ["shaky", "slow", "steady"], "cache_dir": None},
        "tasks": {"suite": "hotpotqa"},
        "execution": {"assembler": "sink", "concurrency": 64},
        "sandbox": {"level": "process"},
        "serving": {"database": url, "lease_s": LEASE_S},
    }
    (folder / "config.yaml").write_text(json.dumps(config))


def billed(folder: Path) -> int:
    path = folder / "bills"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(whole(float(line)) for line in lines)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


async def ready(server: Server) -> float:
    began = time.monotonic()
    while not await asyncio.to_thread(server.is_ready):
        if time.monotonic() - began > START_S or (server.process and server.process.poll() is not None):
            raise SystemExit((server.folder / f"server-{server.port}.log").read_text()[-4000:])
        await asyncio.sleep(0.2)
    return time.monotonic() - began


async def storm(url: str, folder: Path, clients: int, kills: int, budget_usd: float) -> dict[str, Any]:
    """Run the clients, kill the servers, and check the ledger after each restart."""
    configure(folder, url)
    with Database.open(url) as database:
        secret = KeyStore(database).add(KEY, budget_usd)
        running = [Server(folder, free_port()) for _ in range(SERVERS)]
        try:
            for server in running:
                server.start()
            for server in running:
                await ready(server)
            asked = Clients()
            asking = [asyncio.ensure_future(asked.ask(secret, [s.port for s in running])) for _ in range(clients)]
            checks = []
            for kill in range(kills):
                await asyncio.sleep(random.uniform(0.3, 2.0))
                victim = running[kill % SERVERS]
                await asyncio.to_thread(victim.end, signal.SIGKILL)
                before = Ledger.of(database)
                victim.start()
                await ready(victim)
                await asyncio.sleep(2 * LEASE_S)
                bills = billed(folder)
                after = Ledger.of(database)
                checks.append(
                    {
                        "open_when_killed": before.open_reservations,
                        "open_of_the_dead": after.of_the_dead,
                        "sums_right": before.is_summed and after.is_summed,
                        "spent_usd": usd(after.spent),
                        "within_budget": after.spent + after.reserved <= whole(budget_usd),
                        "bills_covered": bills <= after.spent + after.reserved,
                    }
                )
                print(f"kill {kill + 1}: {checks[-1]}", flush=True)
            asked.over = True
            await asyncio.gather(*asking)
            for server in running:
                await asyncio.to_thread(server.end, signal.SIGTERM)
            await asyncio.sleep(2 * LEASE_S)
        finally:
            for server in running:
                if server.process is not None and server.process.poll() is None:
                    server.end(signal.SIGKILL)
        return figures(database, folder, asked, checks, budget_usd)


def figures(
    database: Database, folder: Path, asked: Clients, checks: list[dict[str, Any]], budget_usd: float
) -> dict[str, Any]:
    end, bills = Ledger.of(database), billed(folder)
    logged = {record.receipt.run_id for record in read_log(folder / "logs").records if record.receipt is not None}
    with database.reading() as connection:
        runs = {row.run_id: row for row in connection.execute(select(served))}
        money = connection.execute(select(reservations)).all()
    expired = [row for row in money if row.expired]
    unknown = [row.run_id for row in money if row.run_id not in runs]
    return {
        "kills": len(checks),
        "answered": len(asked.answered),
        "outcomes": dict(sorted(asked.outcomes.items())),
        "budget_usd": budget_usd,
        "billed_usd": usd(bills),
        "spent_usd": usd(end.spent),
        "reserved_usd_at_the_end": usd(end.reserved),
        "overspent": not bills <= end.spent <= whole(budget_usd),
        "reservations": len(money),
        "expired_reservations": len(expired),
        "spent_of_expired_usd": usd(sum(row.spent for row in expired)),
        "answers_without_a_receipt": sum(run not in runs or runs[run].receipt is None for run in asked.answered),
        "answers_without_a_log_line": len(asked.answered.keys() - logged),
        "reservations_of_unknown_runs": len(unknown),
        "runs": len(runs),
        "runs_lost_with_their_server": sum(row.receipt is None for row in runs.values()),
        "sums_right_after_each_restart": all(check["sums_right"] for check in checks) and end.is_summed,
        "nothing_reserved_for_the_dead": all(check["open_of_the_dead"] == 0 for check in checks),
        "bills_covered_after_each_restart": all(check["bills_covered"] for check in checks),
        "within_budget_after_each_restart": all(check["within_budget"] for check in checks),
        "open_when_killed": [check["open_when_killed"] for check in checks],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--budget_usd", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="money-") as name:
        folder = Path(name)
        with database_url(arguments.database, folder) as url:
            found = asyncio.run(storm(url, folder, arguments.clients, arguments.kills, arguments.budget_usd))
    about = {"database": arguments.database, "clients": arguments.clients, "servers": SERVERS, "lease_s": LEASE_S}
    found = {**about, **found, "versions": artifacts.versions(), "platform": platform.platform()}
    print(json.dumps(found, indent=1))
    if arguments.json:
        artifacts.write_json(arguments.json, found)


if __name__ == "__main__":
    main()
