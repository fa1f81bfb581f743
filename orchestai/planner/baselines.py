"""Planners that do not learn."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan, Planner
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean, parse_examples
from orchestai.workflow import Subtask, Workflow

_QUOTED = re.compile(r"`[^`]*`")
_PARENTHESES = re.compile(r"\([^()]*\)")
_BOUNDARY = re.compile(r"(?<=[.;:!?])\s+|,?\s+(?:and\s+)?then\b,?\s*|,\s+and\s+(?=\w)|\n\s*\n", re.IGNORECASE)
_CONNECTIVE = re.compile(
    r"(?:(?:and|then|also|next|now|last|lastly|first|firstly|second|secondly|third|finally|separately|independently"
    r"|afterwards|meanwhile|to\s+(?:begin|start|finish|end))\b[^,`(]*,\s*"
    r"|(?:after|as|before|in|on|with|using|from|for|given|starting|taking|combining|going|once)\b[^,(]*,\s*"
    r"|(?:and|then|also|next|now|finally|first)\s+)",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"\s*(?:please\s+)?(?:write|implement|create|define|complete)\b[^.]*?\b(?:function|program|code)\b", re.IGNORECASE
)
_CALL = re.compile(r"`[A-Za-z_]\w*\(|>>>")
_EDGES = " \t\r\n.,;:"
_SHORTEST = 4
"""Characters; anything shorter is punctuation or a stray word."""

_DATE = re.compile(r"'\d{4}-\d\d-\d\d'")
_LITERALS = {"'": "string", '"': "string", "[": "list", "(": "list", "{": "dict"}
"""How a literal begins, and its type; one that begins otherwise is a number."""
_KEYWORDS = {
    "date": re.compile(r"\b(dates?|days?|weeks?|months?|years?|weekdays?|calendar|leap)\b"),
    "dict": re.compile(r"\b(dict(ionary|ionaries)?|mapping|keys?)\b"),
    "list": re.compile(r"\b(lists?|items?|elements?|numbers|sort(ed)?|entries|values)\b"),
    "integer": re.compile(r"\b(integers?|number|digits?|multiply|add|subtract|divide|square|prime|factorial)\b"),
    "string": re.compile(r"\b(strings?|text|words?|letters?|characters?|vowels?|upper|lower|case|sentence)\b"),
}


def clauses(instruction: str) -> list[tuple[int, int]]:
    """[start, end) offsets of the clauses that ask for something, in the order of the text.

    A clause keeps its inline example and loses its connective ("First,", "with the words,"). The sentence that asks for
    a function and the sentences that show calls of it are left out, and where some clauses show examples of their own,
    those that show none. An instruction in which nothing is found is one clause as a whole, so there is always one.
    """
    shield = _PARENTHESES.sub(_blank, _QUOTED.sub(_blank, instruction))
    found: list[tuple[int, int]] = []
    start = 0
    for end, following in [*((m.start(), m.end()) for m in _BOUNDARY.finditer(shield)), (len(shield), len(shield))]:
        start, end = _strip(instruction, start, end)
        while (match := _CONNECTIVE.match(shield, start, end)) and match.end() < end:
            start, end = _strip(instruction, match.end(), end)
        text = instruction[start:end]
        if len(text) >= _SHORTEST and not _PREAMBLE.match(text) and not _CALL.search(text):
            found.append((start, end))
        start = following
    exemplified = [(start, end) for start, end in found if parse_examples(instruction[start:end])]
    return exemplified or found or [_strip(instruction, 0, len(instruction))]


def is_connective(text: str) -> bool:
    """Whether the text only leads to what is asked for ("First,", "with both results,")."""
    match = _CONNECTIVE.match(text)
    return match is not None and match.end() == len(text)


def guess_type(clause: str, task_types: Sequence[str]) -> str:
    """The type of what the clause works on: that of its example's argument, else the one most of its words speak of.

    An example with several arguments is of type `combine`. Only `task_types` are given; ties, and clauses that say
    nothing, go to the first of them.
    """
    if examples := parse_examples(clause):
        first, *more = examples[0].args
        shown = "date" if _DATE.fullmatch(first) else _LITERALS.get(first[0], "integer")
        if (shown := "combine" if more else shown) in task_types:
            return shown
    counts = {kind: len(_KEYWORDS[kind].findall(clause.lower())) if kind in _KEYWORDS else 0 for kind in task_types}
    return max(task_types, key=counts.__getitem__)


def _blank(match: re.Match[str]) -> str:
    """As many characters as the match, none of which is a boundary."""
    return match[0][0] + "_" * (len(match[0]) - 2) + match[0][-1]


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _EDGES:
        start += 1
    while end > start and text[end - 1] in _EDGES:
        end -= 1
    return start, end


class Assignment(Protocol):
    """Gives each subtask its workers: the first is asked first, the others are its fallbacks in order."""

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]: ...


@dataclass(frozen=True)
class FixedAssignment:
    """The same workers for every subtask."""

    workers: tuple[str, ...]

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        return [self.workers] * len(subtasks)


@dataclass(frozen=True)
class RandomAssignment:
    """For each subtask a random worker and `fallbacks` (fewer in a small pool) random others, all distinct."""

    names: tuple[str, ...]
    fallbacks: int

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        asked = min(1 + self.fallbacks, len(self.names))
        return [tuple(rng.sample(self.names, asked)) for _ in subtasks]


def randomness(seed: int, task: Task) -> random.Random:
    """Random numbers that depend on the seed and the task alone, not on the order or grouping of the tasks."""
    return random.Random(f"{seed}/{task.suite}/{task.task_id}")


def assign(workflow: Workflow, assignment: Assignment, rng: random.Random) -> Workflow:
    """The same decomposition with the workers that `assignment` chooses."""
    chosen = assignment(workflow.subtasks, rng)
    return workflow.replace(
        {
            subtask.id: {"worker": workers[0], "fallback": workers[1:]}
            for subtask, workers in zip(workflow.subtasks, chosen, strict=True)
        }
    )


class Decomposer:
    """Splits each task once, however often it is planned; asking again would be paid again.

    Plans say who decomposed them in `decomposed_by`; only the first of a task has its `usage`. What a fault left
    unplanned is asked again.

    Args:
        otherwise: plans whatever the model has no valid plan for.
        called: what that planner is called.
        model: a language model; without one the rules plan alone.
        name: what the model is called.
    """

    def __init__(self, otherwise: Planner, called: str, model: Planner | None = None, name: str = "") -> None:
        self._otherwise = otherwise
        self._called = called
        self._model = model
        self._name = name
        self._known: dict[str, Plan] = {}

    @property
    def description(self) -> str:
        """Who decomposes, for people."""
        if self._model is None:
            return f"by {self._called} (set workers.planner_model for a language model's)"
        return (
            f"by the language model {self._name!r} (workers.planner_model), and where it gives no valid plan by "
            f"{self._called}"
        )

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        new = [task for task in tasks if task.instruction not in self._known]
        plans = dict(self._known)
        written = self._otherwise.plan(new) if self._model is None else self._model.plan(new)
        for task, plan in zip(new, written, strict=True):
            by, usage = (self._called if self._model is None else self._name), plan.usage
            if self._model is not None and plan.workflow is None and plan.fault is None:
                plan, by = self._otherwise.plan([task])[0], self._called
            plans[task.instruction] = plan = replace(plan, decomposed_by=by, usage=usage)
            if plan.fault is None:
                self._known[task.instruction] = replace(plan, usage=None)
        return [plans[task.instruction] for task in tasks]


_EDGE_PROBABILITY = 0.5


class RandomPlanner:
    """Random clauses of the instruction, random types, random workers and random forward edges."""

    def __init__(self, names: Sequence[str], config: PlannerConfig, seed: int = 0) -> None:
        self._assignment = RandomAssignment(tuple(names), config.max_fallbacks)
        self._config = config
        self._seed = seed

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = []
        for task in tasks:
            rng, spans = randomness(self._seed, task), clauses(task.instruction)
            length = rng.randint(1, min(len(spans), self._config.max_subtasks))
            subtasks = [
                Subtask(
                    id=str(i + 1),
                    instruction=clean(task.instruction[start:end]),
                    span=(start, end),
                    task_type=rng.choice(self._config.task_types),
                    depends_on=tuple(str(j + 1) for j in range(i) if rng.random() < _EDGE_PROBABILITY),
                )
                for i, (start, end) in enumerate(sorted(rng.sample(spans, length)))
            ]
            plans.append(Plan(workflow=assign(Workflow(subtasks), self._assignment, rng), raw_valid=True))
        return plans


class HeuristicPlanner:
    """Every clause is a subtask on the one before it; all subtasks ask the same workers, cheap to strong.

    Args:
        cascade: names of workers in the order in which they are asked; `config.max_fallbacks` of them follow the first.
    """

    def __init__(self, cascade: Sequence[str], config: PlannerConfig) -> None:
        self._assignment = FixedAssignment(tuple(cascade[: 1 + config.max_fallbacks]))
        self._config = config

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = []
        for task in tasks:
            subtasks = [
                Subtask(
                    id=str(i + 1),
                    instruction=clean(task.instruction[start:end]),
                    span=(start, end),
                    task_type=guess_type(task.instruction[start:end], self._config.task_types),
                    depends_on=(str(i),) if i else (),
                )
                for i, (start, end) in enumerate(clauses(task.instruction)[: self._config.max_subtasks])
            ]
            workflow = assign(Workflow(subtasks), self._assignment, random.Random(0))
            plans.append(Plan(workflow, raw_valid=all(step.instruction for step in subtasks)))
        return plans


class ReferencePlanner:
    """The task's reference decomposition with workers by `assignment`.

    Args:
        seed: another one for each repetition, where the assignment is random.
        decomposer: plans the tasks for which nobody knows a reference; without one, these are one subtask.
    """

    def __init__(self, assignment: Assignment, seed: int = 0, decomposer: Planner | None = None) -> None:
        self._assignment = assignment
        self._seed = seed
        self._decomposer = decomposer

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unknown = [task for task in tasks if needs_decomposer(task)] if self._decomposer is not None else []
        found = zip(unknown, self._decomposer.plan(unknown) if self._decomposer is not None else (), strict=True)
        decomposed = {task.task_id: plan for task, plan in found}
        plans = []
        for task in tasks:
            plan = decomposed.get(task.task_id) or Plan(workflow=task.reference or whole_task(task), raw_valid=True)
            if plan.workflow is not None:
                chosen = assign(plan.workflow, self._assignment, randomness(self._seed, task))
                plan = replace(plan, workflow=chosen)
            plans.append(plan)
        return plans


class WholePlanner:
    """Asks one worker for the whole task; `fallback` workers follow when its answer fails the task's examples."""

    def __init__(self, worker: str, fallback: Sequence[str] = ()) -> None:
        self._assignment = FixedAssignment((worker, *fallback))

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unused = random.Random(0)
        return [Plan(workflow=assign(whole_task(task), self._assignment, unused), raw_valid=True) for task in tasks]


def needs_decomposer(task: Task) -> bool:
    """Whether somebody has to split the task; one that completes a given program head is a single function."""
    return task.reference is None and not (task.complete_prompt or task.code_prompt)


def whole_task(task: Task) -> Workflow:
    """The task as a workflow of one subtask, without a type or a worker."""
    return Workflow([Subtask(id="1", instruction=task.instruction, span=(0, len(task.instruction)))])
