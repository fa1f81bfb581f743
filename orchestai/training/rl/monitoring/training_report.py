"""What training says: a line on the terminal, rows in two files, and figures for the configured trackers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.errors import UserError
from orchestai.progress import open_progress
from orchestai.storage import artifacts
from orchestai.training.rl.monitoring.best import Standing
from orchestai.training.rl.monitoring.generalization_gap import Gap
from orchestai.training.rl.monitoring.training_state import Position, length_of

METRICS, ROLLOUTS = "phase2_metrics.jsonl", "phase2_rollouts.jsonl"
_ALSO_CALLED = {"success": "success_rate", "cost_usd": "avg_cost", "latency_ms": "avg_latency"}
"""Names under which trackers get these figures too, as many dashboards call them."""
SAMPLES_PER_UPDATE = 8
"""Plans that the file of rollouts keeps of each update."""


class TrainingReport:
    """Writes on the main process; on the others every call does nothing.

    Use as a context manager. A run that is resumed first drops what the files hold of later updates; a new one begins
    them anew.

    Args:
        config: says how long the run is.
        position: where an earlier run stopped, or the beginning.
    """

    def __init__(
        self, output: Path, accelerator: Accelerator, *, config: RlConfig, position: Position, resumed: bool
    ) -> None:
        self._metrics = output / METRICS
        self._rollouts = output / ROLLOUTS
        self._accelerator = accelerator
        self._main = accelerator.is_main_process
        self._progress = open_progress("phase 2", disable=not self._main)
        self._line = self._progress.add_task(
            "phase 2", total=length_of(config), completed=position.done(config), status=""
        )
        self._config = config
        if self._main:
            for path in (self._metrics, self._rollouts):
                _keep_until(path, position.update if resumed else -1)

    def __enter__(self) -> TrainingReport:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, position: Position, metrics: Mapping[str, float], samples: Sequence[Mapping[str, Any]]) -> None:
        """One update's figures and some of its plans."""
        if not self._main:
            return
        update = position.update
        _append(self._metrics, [{"update": update, **metrics}])
        _append(self._rollouts, [{"update": update, **sample} for sample in samples])
        also = {name: metrics[figure] for figure, name in _ALSO_CALLED.items() if figure in metrics}
        self._accelerator.log({**metrics, **also}, step=update)
        self._show_plans(update, samples)
        lost = f"  unscorable {metrics['unscorable_share']:.0%}" if metrics["unscorable_share"] else ""
        shown = (
            f"reward {metrics['reward']:.2f}  success {metrics['success']:.0%}  flat {metrics['flat_group_share']:.0%}"
        )
        self._progress.update(self._line, completed=position.done(self._config), status=shown + lost)

    def evaluation(
        self, update: int, metrics: Mapping[str, float], standing: Standing, gaps: Mapping[str, Gap]
    ) -> None:
        """The figures of an evaluation, under names that begin with `eval_`, and how it compares with those before."""
        if not self._main:
            return
        named = {f"eval_{name}": value for name, value in metrics.items()}
        if standing.success_change is not None:
            named["eval_success_change"] = standing.success_change.mean
        named |= {f"eval_gap_{name}": gap.mean for name, gap in gaps.items()}
        _append(self._metrics, [{"update": update, **named}])
        self._accelerator.log(named, step=update)
        costs = f", {metrics['cost_usd']:.3g} USD" if "cost_usd" in metrics else ""
        latency = f", {metrics['latency_ms']:.0f} ms" if "latency_ms" in metrics else ""
        reward_change = f" ({standing.reward_change:+.3f} since the start)" if update else ""
        success_change = f" ({standing.success_change})" if update and standing.success_change is not None else ""
        self.say(
            f"update {update}: validation reward {metrics['reward']:.3f}{reward_change}, success "
            f"{metrics['success']:.1%}{success_change}{costs}{latency}{' (best so far)' if standing.best else ''}"
        )
        if standing.passed_over:
            self.say(f"update {update}: {standing.passed_over}")

    def _show_plans(self, update: int, samples: Sequence[Mapping[str, Any]]) -> None:
        nested = ("rewards", "turns")
        columns = list(dict.fromkeys(key for sample in samples for key in sample if key not in nested))
        rows = [[sample.get(column) for column in columns] for sample in samples]
        for tracker in self._accelerator.trackers:
            if tracker.name == "wandb" and rows:
                tracker.log_table("plans", columns=columns, data=rows, step=update)

    def say(self, message: str) -> None:
        """A line above the progress bar."""
        if self._main:
            self._progress.console.print(message, highlight=False)


def _append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UserError(
            f"{path}: cannot write: {error.strerror or error}; free space or choose another folder"
        ) from error


def _keep_until(path: Path, update: int) -> None:
    """Drop the rows of later updates, and a last line that was cut off."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="\n") as file:  # texts hold other ends of lines, such as U+2028
        kept = [line for line in file if line.endswith("\n") and json.loads(line)["update"] <= update]
    artifacts.write_text(path, "".join(kept))
