"""Constrained decoding: the model can write nothing but plans of its pool. Needs xgrammar (the extra `constrained`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.extras import needed_for
from orchestai.lm.sampling import Choose
from orchestai.workers.base import WorkerCard


def plan_grammar(
    config: PlannerConfig,
    cards: Sequence[WorkerCard],
    tokenizer: PreTrainedTokenizerBase,
    vocab_size: int,
    end_ids: frozenset[int],
) -> Callable[[], Choose]:
    """What makes the `choose` of one request to `CausalPolicy.sample`.

    Args:
        vocab_size: of the logits, which may be wider than the tokenizer.

    Raises:
        UserError: xgrammar is not installed.
    """
    with needed_for("planner.language.constrained"):
        import xgrammar
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size, stop_token_ids=sorted(end_ids))
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(
        json.dumps(plan_schema(config, cards)), any_whitespace=False, separators=(",", ":"), strict_mode=True
    )

    def start() -> Choose:
        matchers: dict[int, Any] = {}
        bitmask: Any = xgrammar.allocate_token_bitmask(1, vocab_size)

        def choose(rows: Sequence[int], written: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
            for place, (row, ids) in enumerate(zip(rows, written, strict=True)):
                matcher = matchers.setdefault(row, xgrammar.GrammarMatcher(compiled))
                if ids:
                    matcher.accept_token(ids[-1])
                if not matcher.is_terminated():
                    matcher.fill_next_token_bitmask(bitmask)
                    xgrammar.apply_token_bitmask_inplace(logits[place : place + 1], bitmask.to(logits.device))
            return logits

        return choose

    return start


def plan_schema(config: PlannerConfig, cards: Sequence[WorkerCard]) -> dict[str, Any]:
    """JSON schema of the canonical text of a plan: known types and workers, and parents among the steps before.

    It cannot forbid that a step names a parent twice; such a plan is invalid, as ever.
    """
    names = {"enum": [card.name for card in cards]}
    assigned = {
        "task_type": {"enum": list(config.task_types)},
        "worker": names,
        "fallback": {"type": "array", "items": names, "maxItems": config.max_fallbacks},
    }
    steps = []
    for number in range(1, config.max_subtasks + 1):
        earlier = {"items": {"enum": list(range(1, number))}} if number > 1 else {}
        properties = {
            "id": {"const": number},
            "instruction": {"type": "string", "minLength": 1},
            **(assigned if config.language.assign else {}),
            "role": {"type": "string"},
            "depends_on": {"type": "array", "maxItems": number - 1, **earlier},
        }
        steps.append(_object(properties, optional=("role",)))
    plan = {"type": "array", "prefixItems": steps, "items": False, "minItems": 1}
    return _object({"subtasks": plan})


def _object(properties: dict[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
