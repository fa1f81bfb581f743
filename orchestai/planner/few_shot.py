"""The `llm` planner: a language model writes the plan as JSON after worked examples."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from orchestai.config import PlannerConfig
from orchestai.errors import InfrastructureError
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan
from orchestai.planner.language.plan_text import parse_plan
from orchestai.planner.language.prompt_examples import STEPS, TASK
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard, WorkerError
from orchestai.workers.generation import Generator, Prompt, SamplingParams
from orchestai.workers.prices import Prices
from orchestai.workers.token_count import most_tokens
from orchestai.workflow import WorkflowError

_PREFILL = '{"subtasks": ['
_MAX_NEW_TOKENS = 768
_END = "]}\n\n"
"""After a plan that is written in few lines; a blank line within one ends nothing."""


class FewShotPlanner:
    """Asks a language model for each plan; what it writes is a plan or an error, never mended beyond cutting it short.

    What it was asked and paid is the plan's `usage`. Where it could not be asked, the plan has a `fault`.

    Create it in the event loop that the generator runs in. `plan` blocks, so inside that loop call it as
    `await asyncio.to_thread(planner.plan, tasks)`, or await `aplan`.
    """

    def __init__(
        self, generator: Generator, cards: Sequence[WorkerCard], config: PlannerConfig, prices: Prices
    ) -> None:
        self._generator = generator
        self._cards = tuple(cards)
        self._config = config
        self._prices = prices
        self._loop = asyncio.get_running_loop()

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan from a thread other than the event loop's.

        Raises:
            UserError: the model cannot be asked.
            RuntimeError: called in the event loop itself, which would wait for itself for ever.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise RuntimeError("FewShotPlanner.plan blocks its own event loop; use asyncio.to_thread or aplan")
        return asyncio.run_coroutine_threadsafe(self.aplan(tasks), self._loop).result()

    def most_usd(self, task: Task) -> float:
        """What planning a task may cost, every try counted."""
        return self._generator.tries * self._prices.cost(most_tokens(self.prompt(task.instruction)), _MAX_NEW_TOKENS)

    async def aplan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan all tasks concurrently."""
        return list(await asyncio.gather(*(self._plan(task) for task in tasks)))

    async def _plan(self, task: Task) -> Plan:
        prompt = self.prompt(task.instruction)
        params = SamplingParams(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS, stop=(_END,))
        try:
            completion = await self._generator.generate(prompt, params, 0)
        except InfrastructureError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), fault=Unscorable.of(error))
        except WorkerError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), usage=self._prices.paid(error.usage))
        usage = self._prices.paid(completion.usage)
        names = [card.name for card in self._cards]
        try:
            workflow = parse_plan(prompt.prefill + completion.text, task.instruction, names, self._config)
        except WorkflowError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), usage=usage)
        return Plan(workflow=workflow, raw_valid=True, usage=usage)

    def prompt(self, instruction: str) -> Prompt:
        """The workers, the types, one worked example, then `instruction`."""
        workers = "\n".join(f"- {card.name}: {card.text}" for card in self._cards)
        system = (
            "You split an instruction into subtasks. Reply with JSON alone. Each subtask has an id, an instruction "
            "copied word by word, a task_type, a worker and depends_on: the ids of the subtasks whose results it needs."
            f"\nTypes: {', '.join(self._config.task_types)}\nWorkers:\n{workers}"
        )
        types, cards = self._config.task_types, self._cards
        subtasks = (
            {
                "id": str(i + 1),
                "instruction": text,
                "task_type": types[-1] if parents else types[0],
                "worker": cards[i % len(cards)].name,
                "depends_on": parents,
            }
            for i, (text, parents) in enumerate(STEPS)
        )
        example = _PREFILL + ",\n".join(map(json.dumps, subtasks)) + "]}"
        messages = (("system", system), ("user", TASK), ("assistant", example), ("user", instruction))
        return Prompt(messages, prefill=_PREFILL)
