"""What a planner should have planned, read off one logged execution."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from orchestai.config import Config
from orchestai.data.training_file import Rewards, TrainingExample
from orchestai.errors import first_problem
from orchestai.execution.record import ExecutionRecord, SubtaskRecord
from orchestai.workflow import Subtask, Workflow, WorkflowError


class TargetsError(ValueError):
    """The execution cannot be learned from; the message says why, in words that can be counted."""


def targets_of(record: ExecutionRecord, config: Config) -> TrainingExample:
    """The plan of an execution with hindsight: each subtask gets the worker whose answer counted.

    Raises:
        TargetsError: the plan has a worker, type or size that the configuration does not know.
    """
    size = len(record.planner_outputs.model_selections)
    if size > config.planner.max_subtasks:
        raise TargetsError(f"more subtasks than planner.max_subtasks={config.planner.max_subtasks}")
    if size == 0:
        raise TargetsError("no valid plan")
    try:
        return TrainingExample(
            instruction=record.instruction,
            workflow=_from_subtasks(record, config) if record.subtasks else _from_outputs(record, config),
            rewards=Rewards(
                success=min(max(float(record.success) if record.score is None else record.score, 0.0), 1.0),
                cost=-record.cost,
                latency=-record.latency_ms / 1000,
            ),
            task_id=record.task_id,
            suite=record.suite,
        )
    except (ValidationError, WorkflowError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise TargetsError(f"not a plan ({problem})") from None


def _from_subtasks(record: ExecutionRecord, config: Config) -> Workflow:
    subtasks = []
    for logged in record.subtasks:
        listed = _listed_from_answer(logged)[: 1 + config.planner.max_fallbacks]
        worker, *fallback = (_worker(name, config) for name in listed)
        subtask = Subtask(
            id=logged.id,
            instruction=logged.instruction,
            task_type=_task_type(logged.task_type, config),
            worker=worker,
            depends_on=logged.depends_on,
            fallback=tuple(fallback),
            span=_span(logged, record.instruction),
        )
        subtasks.append(subtask)
    return Workflow(subtasks)


def _from_outputs(record: ExecutionRecord, config: Config) -> Workflow:
    """From a line without subtasks: the plan is all that it says."""
    outputs = record.planner_outputs
    size = len(outputs.model_selections)
    adjacency = outputs.workflow_graph.adjacency
    if len(adjacency) != size or any(len(row) != size for row in adjacency):
        raise TargetsError("adjacency and model_selections differ in size")
    pool = record.pool or tuple(config.workers.pool)
    if not all(0 <= index < len(pool) for index in outputs.model_selections):
        raise TargetsError("a model selection outside the pool")
    if len(types := outputs.task_types or ("",) * size) != size:
        raise TargetsError("task_types and model_selections differ in size")
    return Workflow(
        [
            Subtask(
                id=str(j + 1),
                instruction="",
                task_type=_task_type(types[j], config),
                worker=_worker(pool[index], config),
                depends_on=tuple(str(i + 1) for i in range(size) if adjacency[i][j]),
            )
            for j, index in enumerate(outputs.model_selections)
        ]
    )


def _listed_from_answer(subtask: SubtaskRecord) -> Sequence[str]:
    """The workers from the one whose answer counted (the first one where none did) to the last fallback."""
    listed = subtask.workers
    return listed[listed.index(subtask.answered_by) :] if subtask.answered_by in listed else listed


def _worker(name: str, config: Config) -> str:
    if name not in config.workers.pool:
        raise TargetsError(f"worker {name!r} is not in workers.pool")
    return name


def _task_type(name: str | int, config: Config) -> str:
    """The name of the type; empty where the plan names none."""
    known = config.planner.task_types
    if isinstance(name, int) and 0 <= name < len(known):
        return known[name]
    if name not in ("", *known):
        raise TargetsError(f"task type {name!r} is not in planner.task_types")
    return str(name)


def _span(subtask: SubtaskRecord, instruction: str) -> tuple[int, int] | None:
    """The subtask's own span, else the one place where the instruction has its words."""
    if subtask.span is not None:
        return subtask.span
    if subtask.instruction and instruction.count(subtask.instruction) == 1:
        start = instruction.index(subtask.instruction)
        return start, start + len(subtask.instruction)
    return None
