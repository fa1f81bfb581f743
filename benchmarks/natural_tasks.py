"""Tasks in natural wording with the steps that they are made of, and workers that do exactly these steps."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestai.errors import UserError
from orchestai.planner.plan_metrics import match_spans
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError, WorstCase
from orchestai.workflow import Subtask, Workflow


@dataclass(frozen=True)
class NaturalTask:
    """A task with its steps.

    Attributes:
        spans: for each step the [start, end) offsets of its words, then others that are right too.
        arguments: for each step what its function is called with: a step's place, or the name of a parameter.
        source: the program's functions `step_1`, ...
    """

    task: Task
    spans: tuple[tuple[tuple[int, int], ...], ...]
    edges: frozenset[tuple[int, int]]
    arguments: tuple[tuple[int | str, ...], ...]
    source: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> NaturalTask:
        place = {step["id"]: i for i, step in enumerate(record["steps"])}
        program = ast.parse(record["canonical_solution"])
        entry = next(n for n in program.body if isinstance(n, ast.FunctionDef) and n.name == record["entry_point"])
        arguments, values = {}, dict[str, int]()
        for node in entry.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                called, given = ast.unparse(node.value.func), map(ast.unparse, node.value.args)
                step = int(called.removeprefix("step_")) - 1
                arguments[step] = tuple(values.get(name, name) for name in given)
                values[ast.unparse(node.targets[0])] = step
        return cls(
            task=Task(
                task_id=record["task_id"],
                suite="natural",
                instruct_prompt=record["instruct_prompt"],
                canonical_solution=record["canonical_solution"],
                test=record["test"],
                entry_point=record["entry_point"],
                parameters=tuple(each.arg for each in entry.args.args),
            ),
            spans=tuple(
                tuple(map(tuple, [step["span"], *step.get("acceptable", [])]))  # type: ignore[misc]
                for step in record["steps"]
            ),
            edges=frozenset((place[a], place[b]) for a, b in record["edges"]),
            arguments=tuple(arguments[i] for i in range(len(record["steps"]))),
            source=ast.unparse([node for node in program.body if node is not entry]),  # type: ignore[arg-type]
        )

    def reference(self, planned: Workflow) -> Workflow:
        """The right plan; each step has that of its right spans which some planned step comes nearest to."""
        places = [subtask.span or (0, 0) for subtask in planned.subtasks]
        return Workflow(
            [
                Subtask(
                    id=str(i),
                    instruction="",
                    span=max(right, key=lambda span: max(_overlap(span, place) for place in places)),
                    depends_on=tuple(str(a) for a, b in sorted(self.edges) if b == i),
                )
                for i, right in enumerate(self.spans)
            ]
        )


def read_tasks(file: Path) -> list[NaturalTask]:
    """The tasks of a file.

    Raises:
        UserError: there is no such file, or a line that is no such task.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from None
    tasks = []
    for number, line in enumerate(lines, start=1):
        try:
            tasks += [NaturalTask.of(json.loads(line))] if line.strip() else []
        except (AttributeError, LookupError, StopIteration, SyntaxError, TypeError, ValueError) as error:
            raise UserError(f"{file}: line {number} is no task with steps, edges and a program: {error!r}") from None
    if not tasks:
        raise UserError(f"{file}: no tasks")
    return tasks


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> float:
    return max(0, min(a[1], b[1]) - max(a[0], b[0])) / (max(a[1], b[1]) - min(a[0], b[0]))


class StepFunctions:
    """Workers that know the task's program: they answer a planned step whose words are those of one of its steps."""

    def __init__(self, natural: NaturalTask, planned: Workflow) -> None:
        self._natural = natural
        self._planned = planned
        self._match = match_spans(planned, natural.reference(planned))

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase()

    async def answer(self, name: str, request: Request) -> Answer:
        place = next(i for i, subtask in enumerate(self._planned.subtasks) if subtask.id == name)
        step = self._match.get(place)
        if step is None or request.signature is None:
            raise WorkerError(f"{request.instruction!r} is no step of this task")
        return Answer(text=self._program(place, step, request.signature.name))

    def _program(self, place: int, step: int, name: str) -> str:
        """The step's function, which takes what the planned step hands it, and what it names of the task's input."""
        parents = [self._match.get(parent, -1) for parent in self._planned.dependencies()[place]]
        inputs = [f"value_{parent}" if parent >= 0 else "_" for parent in parents]
        wanted = [f"value_{a}" if isinstance(a, int) else a for a in self._natural.arguments[step]]
        taken = [a for a in self._natural.task.parameters if not parents or a in wanted]
        head = f"def {name}({', '.join([*dict.fromkeys(inputs), *taken])}):"
        # Planned steps are called step_1, step_2, ... as the task's own are.
        source = re.sub(r"\bstep_(\d+)\b", r"own_step_\1", self._natural.source)
        return f"{source}\n\n{head}\n    return own_step_{step + 1}({', '.join(wanted)})\n"


def assigned_to_itself(workflow: Workflow) -> Workflow:
    """Each step is asked of the worker of its own name, so that `StepFunctions` knows which it is asked."""
    return workflow.replace({s.id: {"worker": s.id, "fallback": ()} for s in workflow.subtasks})
