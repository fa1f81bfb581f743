"""What a language model reads before it writes a plan, as token ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.lm.chat_rendering import prompt_ids
from orchestai.lm.local_models import PLANNER
from orchestai.planner.language.plan_text import with_numbers, without_workers, write_plan
from orchestai.planner.language.plan_text import worked_examples
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
    """

    def __init__(
        self,
        config: PlannerConfig,
        cards: Sequence[WorkerCard],
        tokenizer: PreTrainedTokenizerBase,
        context: int | None = None,
    ) -> None:
        settings = config.language
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

    def write(self, instruction: str) -> Tensor:
        """(tokens,) int64 ids, at least one.

        Raises:
            PromptTooLongError: they are more than `max_prompt_tokens`, or leave no room for `max_new_tokens`.
        """
        messages = [*self._before, ("user", self._shown(instruction))]
        # Read by templates of models that would think aloud before the plan.
        ids = prompt_ids(self._tokenizer, messages, key=PLANNER.name, enable_thinking=False)
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
