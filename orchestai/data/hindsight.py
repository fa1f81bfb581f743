"""What a planner should have planned, read off one logged execution."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from orchestai.config import Config
from orchestai.data.training_file import Rewards, Targets, TrainingExample
from orchestai.execution.record import ExecutionRecord, SubtaskRecord


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
        targets = _from_subtasks(record, config) if record.subtasks else _from_outputs(record, config)
        return TrainingExample(
            instruction=record.instruction,
            targets=targets,
            rewards=Rewards(
                success=record.score if record.score is not None else float(record.success),
                cost=-record.cost,
                latency=-record.latency_ms / 1000,
            ),
            task_id=record.task_id,
            suite=record.suite,
        )
    except ValidationError as error:
        raise TargetsError(f"not a plan ({error.errors()[0]['msg']})") from None


def _from_subtasks(record: ExecutionRecord, config: Config) -> Targets:
    place = {subtask.id: i for i, subtask in enumerate(record.subtasks)}
    workers = [_listed_from_answer(subtask) for subtask in record.subtasks]
    return Targets(
        model_selections=tuple(_worker(listed[0], config) for listed in workers),
        task_types=tuple(_task_type(subtask.task_type, config) for subtask in record.subtasks),
        dependencies=tuple(tuple(place[parent] for parent in subtask.depends_on) for subtask in record.subtasks),
        spans=tuple(_span(subtask, record.instruction) for subtask in record.subtasks),
        fallback=tuple(
            tuple(_worker(name, config) for name in listed[1 : 1 + config.planner.max_fallbacks]) for listed in workers
        ),
        instructions=tuple(subtask.instruction for subtask in record.subtasks),
    )


def _from_outputs(record: ExecutionRecord, config: Config) -> Targets:
    """From a line without subtasks: the plan is all that it says."""
    outputs = record.planner_outputs
    size = len(outputs.model_selections)
    adjacency = outputs.workflow_graph.adjacency
    if len(adjacency) != size or any(len(row) != size for row in adjacency):
        raise TargetsError("adjacency and model_selections differ in size")
    pool = record.pool or tuple(config.workers.pool)
    if not all(0 <= index < len(pool) for index in outputs.model_selections):
        raise TargetsError("a model selection outside the pool")
    return Targets(
        model_selections=tuple(_worker(pool[index], config) for index in outputs.model_selections),
        task_types=tuple(_task_type(name, config) for name in outputs.task_types) or (None,) * size,
        dependencies=tuple(tuple(i for i in range(size) if adjacency[i][j]) for j in range(size)),
    )


def _listed_from_answer(subtask: SubtaskRecord) -> Sequence[str]:
    """The workers from the one whose answer counted (the first one where none did) to the last fallback."""
    listed = subtask.workers
    return listed[listed.index(subtask.answered_by) :] if subtask.answered_by in listed else listed


def _worker(name: str, config: Config) -> int:
    try:
        return list(config.workers.pool).index(name)
    except ValueError:
        raise TargetsError(f"worker {name!r} is not in workers.pool") from None


def _task_type(name: str | int, config: Config) -> int | None:
    """Index of the type; None where the plan names none."""
    known = config.planner.task_types
    if name == "":
        return None
    if isinstance(name, int) and 0 <= name < len(known):
        return name
    if name in known:
        return known.index(str(name))
    raise TargetsError(f"task type {name!r} is not in planner.task_types")


def _span(subtask: SubtaskRecord, instruction: str) -> tuple[int, int] | None:
    """The subtask's own span, else the one place where the instruction has its words."""
    if subtask.span is not None:
        return subtask.span
    if subtask.instruction and instruction.count(subtask.instruction) == 1:
        start = instruction.index(subtask.instruction)
        return start, start + len(subtask.instruction)
    return None
