"""How well written plans are those to imitate, step by step and edge by edge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestai.data.training_file import TrainingExample
from orchestai.planner.base import Plan
from orchestai.training.supervised.metrics import Tally
from orchestai.workflow import Workflow


def plan_figures(
    plans: Sequence[Plan], wanted: Sequence[Workflow], examples: Sequence[TrainingExample]
) -> dict[str, float]:
    """Shares of plans, and F1 scores over all of them.

    `exact_decomposition` asks for the same words, types and parents in the same order, `exact_plan` also for the same
    first workers; what an example leaves open (a type that nobody named, the workers of an execution that failed)
    always counts. A step is found if its words are. An edge is found if it joins the words that it should.
    """
    tally = Tally()
    steps, edges = _Found(), _Found()
    for plan, target, example in zip(plans, wanted, examples, strict=True):
        tally.add("raw_validity", float(plan.raw_valid))
        tally.add("valid_plans", float(plan.workflow is not None))
        exact = plan.workflow is not None and _same_steps(plan.workflow, target, example)
        assigned = exact and plan.workflow is not None and _same_workers(plan.workflow, target, example)
        tally.add("exact_decomposition", float(exact))
        tally.add("exact_plan", float(assigned))
        steps.add(_steps(plan.workflow), _steps(target))
        edges.add(_edges(plan.workflow), _edges(target))
    return {**tally.means(), "step_f1": steps.f1(), "edge_f1": edges.f1()}


class _Found:
    """Counts of what was made, wanted, and both."""

    def __init__(self) -> None:
        self._both = self._all = 0

    def add(self, made: Counter[object], wanted: Counter[object]) -> None:
        self._both += (made & wanted).total()
        self._all += made.total() + wanted.total()

    def f1(self) -> float:
        """1 where there was nothing to find and nothing was found."""
        return 2 * self._both / self._all if self._all else 1.0


def _same_steps(made: Workflow, wanted: Workflow, example: TrainingExample) -> bool:
    return (
        [subtask.instruction for subtask in made.subtasks] == [subtask.instruction for subtask in wanted.subtasks]
        and made.dependencies() == wanted.dependencies()
        and all(
            known is None or a.task_type == b.task_type
            for a, b, known in zip(made.subtasks, wanted.subtasks, example.targets.task_types, strict=True)
        )
    )


def _same_workers(made: Workflow, wanted: Workflow, example: TrainingExample) -> bool:
    return not example.solved or all(a.worker == b.worker for a, b in zip(made.subtasks, wanted.subtasks, strict=True))


def _steps(workflow: Workflow | None) -> Counter[object]:
    return Counter(subtask.instruction for subtask in workflow.subtasks) if workflow is not None else Counter()


def _edges(workflow: Workflow | None) -> Counter[object]:
    if workflow is None:
        return Counter()
    words = {subtask.id: subtask.instruction for subtask in workflow.subtasks}
    return Counter((words[parent], words[subtask.id]) for subtask in workflow.subtasks for parent in subtask.depends_on)
