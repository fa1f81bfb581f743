"""What a planner is worth on the validation tasks of phase 2, without training."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from orchestai.config import Config, LoggingConfig
from orchestai.errors import UserError
from orchestai.execution.reward import invalid_margin
from orchestai.execution.runtime import open_runtime
from orchestai.planner.checkpoint import load_planner, reference_of, seen_by
from orchestai.planner.checkpoint_files import fingerprint_of
from orchestai.rewards.scorers import refuse_unscorable
from orchestai.storage import artifacts
from orchestai.tasks.suite import data_fingerprint
from orchestai.training.distributed import interleave, on_all, open_accelerator, share
from orchestai.training.rl.algorithms.invalid_plans import rank_invalid
from orchestai.training.rl.monitoring.episode_metrics import describe_episodes, sample_rows
from orchestai.training.rl.reward_setup import Measurement, open_reward
from orchestai.training.rl.rollouts.rollout import Rollout
from orchestai.training.rl.setup import split_tasks

VALIDATION = "validation.json"


async def validate(config: Config, *, checkpoint: Path, output_dir: Path | None = None) -> dict[str, float]:
    """Execute the best plans for the tasks that phase 2 holds out, in all processes of an `accelerate launch`.

    The figures are those of an evaluation during training.

    Args:
        output_dir: folder in which they and the plans are written to validation.json; None writes nothing.

    Raises:
        UserError: the checkpoint, the tasks or the workers are not there, the folder has the validation of another
            planner, or no episode could be judged.
    """
    phase2 = config.training.phase2_rl
    planner = load_planner(checkpoint, config.planner, config.workers)
    fingerprint = fingerprint_of(checkpoint)
    if output_dir is not None:
        _refuse_other(output_dir / VALIDATION, fingerprint)
    learned, held_out = split_tasks(config.tasks, seen_by(checkpoint))
    tasks = held_out[: phase2.eval_tasks]
    refuse_unscorable([*learned, *tasks])
    accelerator = open_accelerator(None, LoggingConfig(), config.training.timeout_s)
    planner.to(accelerator.device)
    named = config.rewards.reward_weights
    async with open_runtime(config.workers, config.execution, config.sandbox, rewards=named) as runtime:
        execute = runtime.executor.execute
        measurement = Measurement(config.workers, learned, execute, config.execution.concurrency, accelerator)
        reward = await open_reward(config.rewards, phase2, reference_of(checkpoint), measurement)
        rollout = Rollout(planner, execute, reward, phase2, concurrency=config.execution.concurrency)
        parts = await on_all(accelerator, rollout.exploit(share(tasks, accelerator)), "exchanging episodes")
        level = runtime.sandbox.level
    compared = [group[0] for group in interleave([part.groups for part in parts])]
    episodes = rank_invalid(compared, invalid_margin(phase2.alpha))
    metrics = describe_episodes(episodes)
    rows = sample_rows(episodes)
    if metrics["unscorable_share"] >= 1:
        raise UserError(f"{checkpoint}: no episode could be judged; the first: {rows[0]['unscorable']}")
    if accelerator.is_main_process:
        facts = {
            "checkpoint": str(checkpoint),
            "fingerprint": fingerprint,
            "data_fingerprint": data_fingerprint(tasks),
            "sandbox_level": level,
            "versions": artifacts.versions(),
        }
        written = ""
        if output_dir is not None:
            artifacts.write_json(output_dir / VALIDATION, {**metrics, "tasks": len(tasks), **facts, "plans": rows})
            written = f"; written: {output_dir / VALIDATION}"
        lost = f", {metrics['unscorable_share']:.1%} unscorable" if metrics["unscorable_share"] else ""
        Console(stderr=True).print(
            f"{checkpoint}: reward {metrics['reward']:.3f}, success {metrics['success']:.1%}, tests "
            f"{metrics['tests']:.1%}, valid plans {metrics['valid_share']:.1%}{lost} on {len(tasks)} validation tasks"
            f"{written}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    accelerator.end_training()
    return metrics


def _refuse_other(path: Path, fingerprint: str) -> None:
    """Raise where the file is the validation of something else than the planner of that fingerprint."""
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found != fingerprint:
        raise UserError(f"{path}: is the validation of another planner; choose another output folder, or remove it")
