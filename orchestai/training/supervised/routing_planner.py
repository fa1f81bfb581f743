"""Phase 1 of the planner of whole tasks: it has no weights, and takes over what was learned of its workers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from orchestai.config import Config
from orchestai.data.training_file import TrainingExample, logged_reference
from orchestai.errors import UserError
from orchestai.planner.checkpoint import save_router
from orchestai.planner.stored_estimate import STATE_KEY, estimate_path, read_state
from orchestai.storage import artifacts
from orchestai.tasks.splits import SeenTasks
from orchestai.training.supervised.run import BEST, LAST, identity_of


def take_over(config: Config, data: Path, examples: list[TrainingExample], output_dir: Path) -> None:
    """Write the checkpoint of the estimate that `prepare` learned beside the training file.

    Raises:
        UserError: there is none, or a file cannot be written.
    """
    state = read_state(estimate_path(data))
    if state is None:
        raise UserError(
            f"{estimate_path(data)}: no estimate of the workers, which planner.kind=whole chooses by; prepare learns "
            "one from a table, or from twenty judged executions on"
        )
    reference = logged_reference(data)
    seen = SeenTasks.of(*([e.asked for e in examples if e.split == part] for part in ("train", "validation")))
    identity = identity_of(config, data)
    facts = {
        STATE_KEY: state,
        "identity": identity,
        "reward_reference": None if reference is None else asdict(reference),
        **seen.facts(),
    }
    for name in (BEST, LAST):
        save_router(output_dir / name, config, **facts)
    artifacts.save_run_info(output_dir, config, command="phase1", **identity)
