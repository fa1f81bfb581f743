"""Logged executions to the pool's estimate."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.config import Config
from orchestai.data.step_attempts import step_attempts
from orchestai.estimate.pool_estimate import FEWEST, PoolEstimate, fit_pool_estimate
from orchestai.execution.record import ExecutionRecord
from orchestai.planner.slots.encoders.encoder import MINILM, open_encoder
from orchestai.planner.slots.encoders.sentences import MAX_SENTENCE_TOKENS, sentence_embedder
from orchestai.workers.pool import worker_cards


def fit_estimate(records: Sequence[ExecutionRecord], config: Config) -> PoolEstimate | None:
    """What the executions say of the configured pool; None where fewer than twenty of them were judged."""
    attempts = step_attempts(records, worker_cards(config.workers))
    if len(attempts.succeeded) < FEWEST:
        return None
    return fit_pool_estimate(attempts, sentence_embedder(open_encoder(MINILM, MAX_SENTENCE_TOKENS))(attempts.texts))
