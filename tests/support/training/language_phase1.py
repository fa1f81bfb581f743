"""A configuration of phase 1 for a tiny language model."""

from __future__ import annotations

from pathlib import Path

from orchestai.config import Config


def config(model: str | Path = "tiny", *, language: dict[str, object] | None = None, **phase1: object) -> Config:
    tool = {"kind": "tool", "tool": "calculator"}
    return Config(
        planner={
            "kind": "language",
            "max_subtasks": 3,
            "max_fallbacks": 1,
            "language": {
                "model": str(model),
                "tiny": {"vocab_size": 360, "hidden": 48, "layers": 2},
                "describe": False,
                "quote": "whole",
                "max_prompt_tokens": 64,
                "max_new_tokens": 64,
                "eval_plans": 3,
                **(language or {}),
            },
        },
        workers={
            "pool": {
                "words": {**tool, "card": "Good with words."},
                "lists": {**tool, "card": "Sorts whatever there is."},
                "slow": {**tool, "card": "Dear, slow, and always right.", "price_per_call_usd": 0.1},
            }
        },
        training={"phase1_supervised": {"learning_rate": 5e-3, "batch_size": 4, **phase1}},
    )
