"""What a language model reads before it writes a plan, as token ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.lm.chat_rendering import prompt_ids
from orchestai.lm.local_models import PLANNER
from orchestai.planner.language.plan_memory import KnownPlan, PlanMemory
from orchestai.planner.language.plan_text import with_numbers, without_workers, write_plan
from orchestai.planner.language.prompt_examples import worked_examples
from orchestai.workers.base import WorkerCard

_WORDS = {
    "whole": "its words, copied from the text",
    "numbered": "the number that follows its first words in the text, such as [2]",
    "begun": "its first words, copied from the text and followed by ...",
    "own": "what its worker is to do, in your own words",
}
_UNASSIGNED = _WORDS | {"own": "what is to be done, in your own words"}
_SPLIT = "Split the text into subtasks for workers."
_PLAN = (
    "Plan how workers solve the task. Each reads the task, its own subtask and the results of those it depends on; "
    "the answer of the last subtask is the answer to the task."
)


class PromptTooLongError(ValueError):
    """The prompt leaves the model no room; the message has the numbers and the settings."""


class PromptWriter:
    """Writes prompts for one pool. The same instruction always gives the same tokens.

    Args:
        context: most tokens that the model reads and writes together; None where it does not say.

    Attributes:
        memory: where `planner.language.nearest` takes a task's examples from.

    Raises:
        UserError: the worked examples cannot be used.
    """

    def __init__(
        self,
        config: PlannerConfig,
        cards: Sequence[WorkerCard],
        tokenizer: PreTrainedTokenizerBase,
        context: int | None = None,
    ) -> None:
        settings = config.language
        self.memory: PlanMemory | None = None
        self._nearest = settings.nearest
        self._tokenizer = tokenizer
        self._numbered = settings.quote == "numbered"
        self._limit = settings.max_prompt_tokens
        self._room = None if context is None else context - settings.max_new_tokens
        self._before: list[tuple[str, str]] = [("system", describe(config, cards))] if settings.describe else []
        for worked in worked_examples(config, cards):
            workflow = worked.workflow if settings.assign else without_workers(worked.workflow)
            plan = write_plan(workflow, worked.instruction, settings.quote)
            self._before += [("user", self._shown(worked.instruction)), ("assistant", plan.text)]

    def _shown(self, instruction: str) -> str:
        return with_numbers(instruction) if self._numbered else instruction

    def write(self, instruction: str, *, origin: str = "") -> Tensor:
        """(tokens,) int64 ids, at least one.

        Of the examples that are nearest those stand in it that there is room for.

        Args:
            origin: of a task that is learned, whose own plan may not stand in its prompt.

        Raises:
            PromptTooLongError: they are more than `max_prompt_tokens`, or leave no room for `max_new_tokens`.
            UserError: nearest examples are asked for, but no plan has been learned from.
        """
        known = self._known(instruction, origin)
        ids = self._ids(known, instruction)
        most = self._limit if self._room is None else min(self._limit, self._room)
        while known and len(ids) > most:
            known = known[1:]
            ids = self._ids(known, instruction)
        if len(ids) > self._limit:
            raise PromptTooLongError(
                f"a prompt of {len(ids)} tokens, but planner.language.max_prompt_tokens is {self._limit}"
            )
        if self._room is not None and len(ids) > self._room:
            raise PromptTooLongError(
                f"a prompt of {len(ids)} tokens, but the model's context leaves room for {self._room} beside "
                "planner.language.max_new_tokens"
            )
        return torch.tensor(ids, dtype=torch.long)

    def _known(self, instruction: str, origin: str) -> list[KnownPlan]:
        if not self._nearest:
            return []
        if self.memory is None:
            raise UserError(
                "planner.language.nearest: this planner has learned from no plans yet, so none can stand in its "
                "prompts; train phase 1 with it, or set it to 0"
            )
        return self.memory.nearest(instruction, self._nearest, origin)

    def _ids(self, known: Sequence[KnownPlan], instruction: str) -> list[int]:
        examples = [
            message for one in known for message in (("user", self._shown(one.instruction)), ("assistant", one.plan))
        ]
        messages = [*self._before, *examples, ("user", self._shown(instruction))]
        # Read by templates of models that would think aloud before the plan.
        return prompt_ids(self._tokenizer, messages, key=PLANNER.name, enable_thinking=False)


def describe(config: PlannerConfig, cards: Sequence[WorkerCard]) -> str:
    """The task of planning, the types and the workers, in words."""
    if not config.language.assign:
        return (
            'Split the task into steps. Reply with JSON alone: {"subtasks":[...]}. Each subtask has an id (1, 2, ...), '
            f"an instruction ({_UNASSIGNED[config.language.quote]}), and depends_on (ids of the earlier subtasks that "
            "must be done before it)."
        )
    workers = "\n".join(f"- {card.name} ({card.price_usd:.1e} USD): {card.text}" for card in cards)
    aim = _PLAN if config.language.quote == "own" else _SPLIT
    return (
        f'{aim} Reply with JSON alone: {{"subtasks":[...]}}. Each subtask has an id '
        f"(1, 2, ...), an instruction ({_WORDS[config.language.quote]}), a task_type, a worker, fallback (workers to "
        "ask when its answer fails), if need be a role (how to work), and depends_on (ids of the earlier subtasks "
        f"whose results it takes, in order).\nTypes: {', '.join(config.task_types)}\nWorkers:\n{workers}"
    )
