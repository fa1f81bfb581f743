"""What an answer took, as replies say it: planner and workers apart, with cost."""

from __future__ import annotations

from typing import Any

from orchestai.answering import RunResult
from orchestai.execution.contract.receipt import Receipt
from orchestai.workers.base import Usage

_FIELDS = ("requests", "prompt_tokens", "completion_tokens", "cost_usd")


def workers_usage(receipt: Receipt) -> Usage:
    """What all workers took together; bills that nobody saw count with the most that they can be."""
    planning = receipt.planning or Usage()
    asked = [each for node in receipt.nodes for each in node.asked]
    return Usage(
        requests=len(asked),
        prompt_tokens=sum(each.prompt_tokens for each in asked),
        completion_tokens=sum(each.completion_tokens for each in asked),
        cost_usd=max(receipt.spent_usd - planning.cost_usd, 0.0),
        estimated=any(each.usage_estimated for each in asked),
    )


def usage_fields(receipt: Receipt) -> dict[str, Any]:
    """Of planner and workers, each a part of the reply's `usage`."""
    planner, workers = receipt.planning or Usage(), workers_usage(receipt)
    return {
        "cost_usd": receipt.spent_usd,
        "planner": {name: getattr(planner, name) for name in _FIELDS},
        "workers": {name: getattr(workers, name) for name in _FIELDS},
    }


def total_tokens(receipt: Receipt) -> tuple[int, int]:
    """Tokens read and written by planner and workers."""
    both = (receipt.planning or Usage()).plus(workers_usage(receipt))
    return both.prompt_tokens, both.completion_tokens


def summary(receipt: Receipt) -> dict[str, Any]:
    """The field `orchestai` of a reply; the whole receipt is at `/v1/runs/{run_id}`."""
    return {
        "run_id": receipt.run_id,
        "status": receipt.status,
        "planner": receipt.planner,
        "degraded": receipt.degraded or None,
        "steps": len(receipt.nodes),
        "success": receipt.success,
        "changes": list(receipt.changes),
        "contract": receipt.contract.model_dump(mode="json", exclude_defaults=True),
        "reserved_usd": receipt.reserved_usd,
        "spent_usd": receipt.spent_usd,
        "unsettled_usd": receipt.unsettled_usd,
        "wall_ms": round(receipt.wall_ms, 3),
    }


def headers(result: RunResult) -> dict[str, str]:
    """The same for clients that read no fields of ours."""
    receipt = result.receipt
    return {
        "x-orchestai-run-id": receipt.run_id,
        "x-orchestai-status": receipt.status,
        "x-orchestai-cost-usd": f"{receipt.spent_usd:.9g}",
        **({"x-orchestai-degraded": "true"} if receipt.degraded else {}),
    }
