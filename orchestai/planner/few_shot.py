"""The `llm` planner: a language model writes the plan as JSON after worked examples."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard
from orchestai.workers.generation import Generator, Prompt, SamplingParams
from orchestai.workflow import Subtask, Workflow, WorkflowError

_TASK = (
    "Write a function `task_func(text)`. First, reverse it (`'ab'` -> `'ba'`). Separately, starting again from the "
    "input, count its letters (`'to be'` -> `4`). Finally, with both, repeat the first as often as the second says "
    "(`'a', 2` -> `'aa'`)."
)
_STEPS = (
    ("reverse it (`'ab'` -> `'ba'`)", ()),
    ("count its letters (`'to be'` -> `4`)", ()),
    ("repeat the first as often as the second says (`'a', 2` -> `'aa'`)", ("1", "2")),
)
_PREFILL = '{"subtasks": ['
_MAX_NEW_TOKENS = 768
_FIELDS = frozenset(Subtask.model_fields) - {"span"}
_DECODER = json.JSONDecoder()


class FewShotPlanner:
    """Asks a language model for each plan; what it writes is a plan or an error, never mended beyond cutting it short.

    Create it in the event loop that the generator runs in. `plan` blocks, so inside that loop call it as
    `await asyncio.to_thread(planner.plan, tasks)`, or await `aplan`.
    """

    def __init__(self, generator: Generator, cards: Sequence[WorkerCard], config: PlannerConfig) -> None:
        self._generator = generator
        self._cards = tuple(cards)
        self._config = config
        self._loop = asyncio.get_running_loop()

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan from a thread other than the event loop's.

        Raises:
            InfrastructureError, UserError: the model could not be asked.
            RuntimeError: called in the event loop itself, which would wait for itself for ever.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise RuntimeError("FewShotPlanner.plan blocks its own event loop; use asyncio.to_thread or aplan")
        return asyncio.run_coroutine_threadsafe(self.aplan(tasks), self._loop).result()

    async def aplan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan all tasks concurrently."""
        return list(await asyncio.gather(*(self._plan(task) for task in tasks)))

    async def _plan(self, task: Task) -> Plan:
        prompt = self.prompt(task.instruction)
        params = SamplingParams(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS, stop=("\n\n",))
        completion = await self._generator.generate(prompt, params, 0)
        names = [card.name for card in self._cards]
        try:
            workflow = parse_plan(prompt.prefill + completion.text, task.instruction, names, self._config)
        except WorkflowError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error))
        return Plan(workflow=workflow, raw_valid=True)

    def prompt(self, instruction: str) -> Prompt:
        """The workers, the types, one worked example, then `instruction`."""
        workers = "\n".join(f"- {card.name}: {card.text}" for card in self._cards)
        system = (
            "You split an instruction into subtasks. Reply with JSON alone. Each subtask has an id, an instruction "
            "copied word by word, a task_type, a worker and depends_on: the ids of the subtasks whose results it needs."
            f"\nTypes: {', '.join(self._config.task_types)}\nWorkers:\n{workers}"
        )
        example = _PREFILL + self._worked_example()
        messages = (("system", system), ("user", _TASK), ("assistant", example), ("user", instruction))
        return Prompt(messages, prefill=_PREFILL)

    def _worked_example(self) -> str:
        types, cards = self._config.task_types, self._cards
        subtasks = (
            {
                "id": str(i + 1),
                "instruction": text,
                "task_type": types[-1] if parents else types[0],
                "worker": cards[i % len(cards)].name,
                "depends_on": parents,
            }
            for i, (text, parents) in enumerate(_STEPS)
        )
        return ",\n".join(map(json.dumps, subtasks)) + "]}"


def parse_plan(text: str, instruction: str, workers: Sequence[str], config: PlannerConfig) -> Workflow:
    """The workflow that a model wrote: JSON, perhaps fenced, after other words, or cut off in its last subtask.

    Keys that a subtask does not have are dropped; a subtask whose words occur in the instruction gets their span.

    Raises:
        WorkflowError: there are no subtasks, too many, or one is not valid; the message says which and why.
    """
    raw = list(_subtasks(text))
    if not raw:
        raise WorkflowError("the model's reply holds no subtask")
    if len(raw) > config.max_subtasks:
        raise WorkflowError(f"{len(raw)} subtasks, but planner.max_subtasks is {config.max_subtasks}")
    return Workflow([_subtask(entry, instruction, workers, config) for entry in raw])


def _subtasks(text: str) -> Iterator[dict[str, Any]]:
    """Every complete JSON object with an `instruction`, in order, whatever surrounds it."""
    position = text.find("{")
    while position >= 0:
        try:
            value, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError:
            end = position + 1
        else:
            entries = value.get("subtasks")
            for entry in entries if isinstance(entries, list) else [value]:
                if isinstance(entry, dict) and "instruction" in entry:
                    yield entry
        position = text.find("{", end)


def _subtask(entry: dict[str, Any], instruction: str, workers: Sequence[str], config: PlannerConfig) -> Subtask:
    where = f"subtask {entry.get('id')!r}"
    fields = {key: value for key, value in entry.items() if key in _FIELDS}
    if isinstance(parents := fields.get("depends_on"), list):
        fields["depends_on"] = [str(parent) for parent in parents]
    try:
        subtask = Subtask.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise WorkflowError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if subtask.task_type not in config.task_types:
        raise WorkflowError(f"{where}: no task type {subtask.task_type!r}")
    unknown = [name for name in subtask.workers if name not in workers]
    if unknown:
        raise WorkflowError(f"{where}: no worker {unknown[0]!r} in the pool")
    start = instruction.find(subtask.instruction) if subtask.instruction else -1
    return subtask if start < 0 else subtask.model_copy(update={"span": (start, start + len(subtask.instruction))})
