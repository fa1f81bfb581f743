"""From served runs with feedback to a candidate that was compared with the planner that serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.execution.log import read_log
from orchestai.execution.runtime import open_runtime
from orchestai.planner.checkpoint import seen_by
from orchestai.serving.improvement.candidate import train_candidate
from orchestai.serving.improvement.judged_runs import collected, judged_runs
from orchestai.serving.improvement.registry import Lineage, PlannerRegistry
from orchestai.serving.improvement.trial import compare
from orchestai.serving.store import Feedback
from orchestai.storage.folder_lock import locked
from orchestai.tasks.task import Task

_FEWEST_TASKS = 10
"""On fewer that were kept aside no difference could be told from chance."""


@dataclass(frozen=True)
class Improvement:
    """What an improvement is made from.

    Attributes:
        logs: the execution log of the servers; lines that were collected are learned from, too.
        said: feedback by run id.
        registry: of the planner that serves.
        work: folder for what training writes; a run that was interrupted begins anew in another.
        seed_data: the training file of the first planner.
        phase2: whether to train by reward, which may ask workers that are paid for.
    """

    config: Config
    logs: Path
    said: Mapping[str, Feedback]
    registry: PlannerRegistry
    work: Path
    seed_data: Path | None = None
    phase2: bool = True

    async def run(self) -> Lineage:
        """Train a candidate from the current version, compare it, and keep both in the registry as its next version.

        Raises:
            UserError: no planner serves from the registry, there is too little feedback, or training cannot go on.
        """
        current = self.registry.current
        if current is None:
            raise UserError(f"{self.registry.folder}: no planner serves from here; name one with --checkpoint")
        incumbent = self.registry.checkpoint(current.version)
        config, records = self.config, read_log(self.logs).records
        with locked(self.work, "improvement"):
            async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
                judged = await judged_runs(records, self.said, config.tasks, runtime.sandbox)
            aside = self._unseen(judged.part("test"), incumbent, judged.left_out)
            candidate, learned = await train_candidate(
                config,
                judged,
                collected(records),
                incumbent,
                self.work,
                seed_data=self.seed_data,
                phase2=self.phase2,
            )
            aside = self._unseen(
                aside, candidate, judged.left_out
            )  # it may have seen them in lines that were collected since
            async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
                trial = await compare(config, aside, str(incumbent), str(candidate), runtime)
        return self.registry.add(candidate, parent=current.version, learned=learned, trial=trial)

    def _unseen(self, tasks: Sequence[Task], checkpoint: Path, left_out: Mapping[str, int]) -> list[Task]:
        """Those that a checkpoint has not learned from.

        Args:
            left_out: reason -> number of served runs, to say why there are not more.

        Raises:
            UserError: these are too few to compare planners on.
        """
        seen = seen_by(checkpoint)
        unseen = [task for task in tasks if task.instruction not in seen]
        if len(unseen) < _FEWEST_TASKS:
            raise UserError(
                f"{self.logs}: {len(unseen)} served tasks with tests or a right answer are kept aside to compare "
                f"planners on, and {_FEWEST_TASKS} are needed; gather more feedback{_left_out(left_out)}"
            )
        return unseen


def _left_out(counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    return f" (runs left out: {'; '.join(f'{count}, {reason}' for reason, count in counts.items())})"
