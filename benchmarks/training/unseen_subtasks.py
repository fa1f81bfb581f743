"""How well the pool's estimate tells who passes the check of subtasks that were left out of the logs.

    python benchmarks/training/unseen_subtasks.py --logs execution_logs

A fifth of the subtasks is held out, with all executions that have one of them; other wordings of the same stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from orchestai.config import Config, load_config
from orchestai.data.prepare import fit_estimate, step_attempts
from orchestai.errors import UserError
from orchestai.estimate.attempts import Queries
from orchestai.estimate.calibration import expected_calibration_error, reliability
from orchestai.execution.log import read_log
from orchestai.planner.slots.text_encoder import MAX_SENTENCE_TOKENS, open_encoder, sentence_embedder
from orchestai.workers.pool import worker_cards


def main(config: Config, logs: Path) -> None:
    """Print the calibration error, the Brier score and the reliability."""
    records = read_log(logs).records
    attempts = step_attempts(records, worker_cards(config.workers))
    groups = np.random.default_rng(0).permutation(np.unique(attempts.groups))
    rows = np.flatnonzero(np.isin(attempts.groups, groups[: len(groups) // 5])).tolist()
    texts = [attempts.texts[row] for row in rows]
    held_out = set(texts)
    learned = [r for r in records if not any(subtask.instruction in held_out for subtask in r.subtasks)]
    estimate = fit_estimate(learned, config)
    if estimate is None:
        raise UserError(f"{logs}: too few executions; collect more")
    embeddings = sentence_embedder(open_encoder(MAX_SENTENCE_TOKENS))(texts)
    steps = estimate.steps(Queries(tuple(texts), tuple(attempts.task_types[row] for row in rows), embeddings))
    step = dict(zip(rows, steps, strict=True))
    tested = [place for place, row in enumerate(attempts.row.tolist()) if row in step]
    asked = [(step[int(attempts.row[place])], int(attempts.worker[place])) for place in tested]
    expected = np.array([one.passes[worker] for one, worker in asked])
    passed = attempts.passed[tested]
    print(f"{len(tested)} attempts at {len(rows)} subtasks; learned from {len(learned)} of {len(records)} executions")
    print(f"calibration error {expected_calibration_error(expected, passed):.3f}")
    print(f"Brier score {((expected - passed) ** 2).mean():.3f}; of the mean alone {passed.var():.3f}")
    print(reliability(expected, passed).round(3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, default=Path("execution_logs"))
    parser.add_argument("overrides", nargs="*")
    asked_for = parser.parse_args()
    main(load_config(Path("config.yaml"), asked_for.overrides), asked_for.logs)
