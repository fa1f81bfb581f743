"""One checkpoint at every preference, beside the baselines, without what `orchestai evaluate` asks live models for.

    python benchmarks/training/preferences.py --checkpoint checkpoints/phase1_best.pth --logs execution_logs \\
        --output FILE.json
    python benchmarks/training/preferences.py ... --reference  # the suite's plans in place of the checkpoint's
    python benchmarks/training/preferences.py ... KEY=VALUE --beside CHECKPOINT...  # others, each as it plans by itself

The baselines choose workers for the same plans. The estimate is the checkpoint's own.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestai.config import Config, load_config
from orchestai.data.prepare import for_training
from orchestai.errors import UserError
from orchestai.evaluation.held_out import held_out_tasks
from orchestai.evaluation.systems.baselines import fixed_step_rows, other_rows, trials, whole_rows
from orchestai.evaluation.systems.evaluate import embedder
from orchestai.evaluation.systems.preference_sweep import PreferenceSweep, sweep_preferences
from orchestai.evaluation.systems.runner import RowSummary, Runner, summarize
from orchestai.execution.log import read_log
from orchestai.execution.record import measured_in
from orchestai.execution.reward import reward_form
from orchestai.execution.runtime import open_runtime
from orchestai.planner.base import Planner
from orchestai.planner.baselines import FixedAssignment, ReferencePlanner
from orchestai.planner.checkpoint import forecaster_of, load_planner, seen_by
from orchestai.planner.slots.text_encoder import open_encoder
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits

console = Console(stderr=True)


async def measure(
    config: Config,
    checkpoint: Path,
    logs: Path,
    *,
    reference: bool = False,
    beside: Sequence[Path] = (),
) -> tuple[PreferenceSweep, list[Any]]:
    """The sweep, and the rows that it is compared with.

    Args:
        beside: further planners, a row each.
    """
    settings, workers = config.planner, config.workers
    records = for_training(read_log(logs).records, config.tasks)
    forecaster = forecaster_of(checkpoint)
    reward = reward_form(config.rewards, config.training.phase2_rl, measured_in(records))
    if forecaster is None or reward is None:
        raise UserError(f"{checkpoint}: it has no estimate of its workers, or {logs} has no executions; collect more")
    tasks = held_out_tasks(open_splits(config.tasks), {"checkpoint": seen_by(checkpoint)}).kept
    planner: Planner = ReferencePlanner(FixedAssignment((next(iter(workers.pool)),)))
    name = "reference plans"
    if not reference:
        planner, name = load_planner(checkpoint, settings, workers), checkpoint.stem
    others = {str(path): load_planner(path, settings, workers) for path in beside}
    plans = planner.plan(tasks)
    encoder = open_encoder(settings.max_tokens)
    log = [trial for trial in trials(records, reward) if trial.worker in workers.pool]
    made = {task.task_id: plan for task, plan in zip(tasks, plans, strict=True)}
    async with open_runtime(workers, config.execution, config.sandbox) as runtime:
        runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
        rows = [] if reference else [await runner.run(name, plans, _started(name))]
        by_step = fixed_step_rows(workers, made) | other_rows(settings, workers, made, log, embedder(encoder))
        for row, other in (by_step | whole_rows(workers)).items():
            rows.append(await runner.row(row, other, _started(row)))
        for path, other_planner in others.items():
            rows.append(await runner.run(path, other_planner.plan(tasks), _started(path)))
        longest = 1 + settings.max_fallbacks
        sweep = await sweep_preferences(name, plans, forecaster, runner, rows, _started, longest=longest)
    return sweep, [_figures(summarize(row, tasks[0].suite)) for row in rows]


def _started(row: str) -> Callable[[], None]:
    console.print(row)
    return lambda: None


def _figures(row: RowSummary) -> dict[str, Any]:
    return {key: getattr(row, key) for key in ("name", "n", "success", "success_ci", "cost_usd", "latency_ms")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/phase1_best.pth"))
    parser.add_argument("--logs", type=Path, default=Path("execution_logs"))
    parser.add_argument("--output", type=Path, default=Path("preferences.json"))
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--beside", nargs="+", type=Path, default=[], metavar="CHECKPOINT")
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    loaded = load_config(Path("config.yaml"), asked.overrides)
    swept, others = asyncio.run(
        measure(
            loaded,
            asked.checkpoint,
            asked.logs,
            reference=asked.reference,
            beside=asked.beside,
        )
    )
    console.print(swept.remark())
    artifacts.write_json(asked.output, swept.to_dict() | {"rows": others})
