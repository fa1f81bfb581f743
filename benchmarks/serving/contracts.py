"""Thousands of concurrent runs under contracts, on workers that keep to nothing: is anything overspent, late or leaked?

    python -m benchmarks.serving.contracts --runs 10000 --json docs/results/contracts.json

Plans of one to four steps are drawn at random over workers that are slow, hang, go on after they are cancelled, fail,
break down, answer too much, or bill what they like; every run has a contract of its own, and all share a ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.serving.contract_workers import PRICE_USD, WORKERS, over
from orchestai import Contract, Orchestrator, Workflow
from orchestai.config import Config
from orchestai.execution.contract.deadline import DeadlineError
from orchestai.execution.contract.ledger import Ledger
from orchestai.execution.contract.trimming import ContractError
from orchestai.planner.base import Plan
from orchestai.planner.serving import PlanningQueue, ServedPlanner
from orchestai.storage import artifacts
from orchestai.tasks.task import Task

LIMITS_USD = (0.01, 0.03, 0.1)
SHORTEST_S, LONGEST_S = 5.0, 40.0
LATE_MS = 250.0


def draw_plan(tasks: Sequence[Task]) -> list[Plan]:
    """One random workflow per task."""
    return [Plan(_workflow(), raw_valid=True) for _ in tasks]


def _workflow() -> Workflow:
    return Workflow(
        [
            {
                "id": str(i),
                "instruction": f"step {i}",
                "worker": random.choice(WORKERS),
                "fallback": random.sample(WORKERS, 2),
                "depends_on": [str(random.randrange(i))] if i and random.random() < 0.7 else [],
            }
            for i in range(random.randint(1, 4))
        ]
    )


def configuration(runs: int, concurrency: int) -> Config:
    pool = {
        name: {
            "kind": "function",
            "function": f"benchmarks.serving.contract_workers:{name}",
            "card": name,
            "price_per_call_usd": PRICE_USD,
            "concurrency": runs * 4,
        }
        for name in WORKERS
    }
    return Config(
        workers={"pool": pool, "cache_dir": None},
        execution={"assembler": "sink", "concurrency": concurrency},
        sandbox={"level": "process"},
    )


async def measure(runs: int, ledger_usd: float, concurrency: int) -> dict[str, float]:
    """Start all runs at once and count what was broken."""
    import logging

    logging.getLogger("orchestai").setLevel(logging.CRITICAL)
    ledger, ended, late_ms, overspent = Ledger(ledger_usd), Counter[str](), [], 0
    async with Orchestrator.open(None, configuration(runs, concurrency), log=None, ledger=ledger) as orchestrator:
        orchestrator._planning = PlanningQueue(ServedPlanner("drawn at random", draw_plan))

        gc.freeze()
        gc.set_threshold(10_000, 2, 1_000)

        async def run() -> None:
            nonlocal overspent
            limit, deadline = random.choice(LIMITS_USD), random.uniform(SHORTEST_S, LONGEST_S)
            contract = Contract(max_cost_usd=limit, deadline_s=deadline, max_calls=random.randint(1, 9))
            began = time.monotonic()
            try:
                receipt = (await orchestrator.run("Do it.", contract, answer="text")).receipt
            except DeadlineError:
                ended["not begun"] += 1
            except ContractError:
                ended["refused"] += 1
            else:
                ended[receipt.status] += 1
                kept = (
                    receipt.spent_usd <= receipt.reserved_usd <= limit + 1e-12 and receipt.calls <= contract.max_calls
                )
                overspent += not kept
            late_ms.append((time.monotonic() - began - deadline) * 1000)

        began = time.monotonic()
        await asyncio.gather(*(run() for _ in range(runs)))
        seconds = time.monotonic() - began
        over.set()
    return {
        "runs": runs,
        "concurrency": concurrency,
        "seconds": seconds,
        **{name: ended[name] for name in ("complete", "partial", "failed", "refused", "not begun")},
        "overspent": overspent,
        "latest_ms": max(late_ms),
        "late": sum(ms > LATE_MS for ms in late_ms),
        "late_p99_ms": statistics.quantiles(late_ms, n=100)[-1],
        "ledger_spent_usd": ledger.spent_usd,
        "ledger_limit_usd": ledger_usd,
        "ledger_still_reserved_usd": ledger.reserved_usd,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--ledger_usd", type=float, default=150.0)
    parser.add_argument("--concurrency", type=int, default=10_000, help="workflows executed at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    figures = asyncio.run(measure(arguments.runs, arguments.ledger_usd, arguments.concurrency))
    table = Table(*figures)
    table.add_row(*(f"{value:.6g}" for value in figures.values()))
    Console(width=180).print(table)
    if arguments.json:
        machine = {"versions": artifacts.versions(), "platform": platform.platform(), "seed": arguments.seed}
        artifacts.write_json(arguments.json, {**figures, **machine})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
