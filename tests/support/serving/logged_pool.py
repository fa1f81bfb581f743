"""Logs of two workers: `dear` is always right, `cheap` at a tenth of its price in two of three cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.config import Config
from orchestai.execution.record import ExecutionRecord, PlanOutputs, RunOutputs, SubtaskRecord
from orchestai.execution.result import Attempt

INSTRUCTION = "Look up the town. Then say how many live there."
STEPS = ("Look up the town", "say how many live there")
USD = {"cheap": 0.001, "dear": 0.01}


def settings(**contract: object) -> Config:
    pool = {
        name: {
            "kind": "function",
            "function": "support.serving.contract_workers:good",
            "card": name,
            "price_per_call_usd": 10 * usd,
        }
        for name, usd in USD.items()
    }
    return Config(
        planner={"task_types": ["string"]},
        workers={"pool": pool, "cascade": ["cheap", "dear"], "cache_dir": None},
        execution={"assembler": "sink"},
        sandbox={"level": "process"},
        contract=contract,
    )


def subtask(number: int, words: str, worker: str, task_type: str = "string") -> SubtaskRecord:
    attempt = Attempt(worker=worker, cost_usd=USD.get(worker, 0.0), latency_ms=500, completion_tokens=3)
    return SubtaskRecord(
        id=str(number), instruction=words, task_type=task_type, worker=worker, status="done", attempts=(attempt,)
    )


def record(subtasks: Sequence[SubtaskRecord], success: bool, instruction: str = INSTRUCTION) -> ExecutionRecord:
    cost = sum(attempt.cost_usd for one in subtasks for attempt in one.attempts)
    return ExecutionRecord(
        instruction=instruction,
        split="train",
        success=success,
        cost=cost,
        latency_ms=1000,
        planner_outputs=PlanOutputs(),
        execution_result=RunOutputs(success=success, total_cost=cost, total_latency_ms=1000),
        subtasks=tuple(subtasks),
    )


def logs(whole: int) -> list[ExecutionRecord]:
    """Plans of two steps by workers drawn at random; of whole tasks, `dear` gets every fourth right."""
    rng = np.random.default_rng(0)
    records = []
    for _ in range(400):
        workers = rng.choice(["cheap", "dear"], 2).tolist()
        right = all(worker == "dear" or rng.random() < 2 / 3 for worker in workers)
        records.append(record([subtask(i, *one) for i, one in enumerate(zip(STEPS, workers, strict=True))], right))
    for number in range(whole):
        text = f"Look up town {number}. Then say how many live there."
        records.append(record([subtask(1, text, "dear", "")], number % 4 == 0, text))
        records.append(record([subtask(1, text, "cheap", "")], False, text))
    return records
