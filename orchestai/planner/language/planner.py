"""The planner that is a language model: what it reads as a prompt, and the plan that it writes as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.lm.chat_rendering import prompt_ids
from orchestai.lm.length_batches import length_batches
from orchestai.lm.local_models import PLANNER
from orchestai.lm.sampling import Completion
from orchestai.lm.token_policy import TokenPolicy
from orchestai.planner.base import Plan
from orchestai.planner.language.plan_text import read_plan, with_numbers, without_workers, worked_examples, write_plan
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec, TokenDecisions
from orchestai.workers.base import WorkerCard
from orchestai.workflow import WorkflowError

_WORDS = {
    "whole": "its words, copied from the text",
    "numbered": "the number that follows its first words in the text, such as [2]",
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


class LanguagePlanner(TokenPolicy):
    """Turns instructions into workflows for the workers that `cards` describe, one token after the other.

    A plan that cannot be read is a `Plan` without a workflow, and its tokens are decisions all the same.
    Only a task whose prompt is too long has no decisions.

    Args:
        value_head: estimate the return at every token, for PPO.
    """

    def __init__(
        self,
        config: PlannerConfig,
        cards: Sequence[WorkerCard],
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        value_head: bool = False,
    ) -> None:
        language = config.language
        super().__init__(
            model,
            tokenizer,
            max_slots=language.max_new_tokens,
            value_head=value_head,
            gradient_checkpointing=language.gradient_checkpointing,
            keys=PLANNER,
        )
        self.config = config
        self.cards = tuple(cards)
        self.prompts = PromptWriter(config, cards, tokenizer, self.policy.context)
        self._names = [card.name for card in cards]

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        """Write plans greedily, or sample every token; `explore` does not matter."""
        return self.plan_instructions([task.instruction for task in tasks], sample=sample)

    def plan_instructions(self, instructions: Sequence[str], *, sample: SampleSpec | None = None) -> list[Plan]:
        """`plan` for bare instructions."""
        if sample is not None and len(sample.seeds) != len(instructions):
            raise ValueError(f"{len(instructions)} instructions, but {len(sample.seeds)} seeds")
        prompts, plans = self.write_prompts(instructions)
        for rows in length_batches({i: len(prompt) for i, prompt in prompts.items()}):
            written = self.policy.sample(
                [prompts[i] for i in rows],
                [0 if sample is None else sample.seeds[i] for i in rows],
                temperature=0.0 if sample is None else sample.temperature,
                max_new_tokens=self.max_slots,
            )
            for i, completion in zip(rows, written, strict=True):
                plans[i] = self.read(instructions[i], prompts[i], completion, sampled=sample is not None)
        return [plans[i] for i in range(len(instructions))]

    def write_prompts(self, instructions: Sequence[str]) -> tuple[dict[int, torch.Tensor], dict[int, Plan]]:
        """Prompts by the instruction's number, and for those whose prompt is too long what comes of them."""
        prompts: dict[int, torch.Tensor] = {}
        refused: dict[int, Plan] = {}
        for i, instruction in enumerate(instructions):
            try:
                prompts[i] = self.prompts.write(instruction)
            except PromptTooLongError as error:
                refused[i] = Plan(workflow=None, raw_valid=False, error=str(error))
        return prompts, refused

    def read(self, instruction: str, prompt: torch.Tensor, completion: Completion, *, sampled: bool) -> Plan:
        """The plan that a completion says; without a workflow where it says none."""
        decisions = TokenDecisions(prompt, completion.ids)
        logp, cut_off = completion.logp if sampled else None, not completion.ended
        text = str(self.tokenizer.decode(completion.ids, skip_special_tokens=True))
        try:
            found = read_plan(text, instruction, self._names, self.config)
        except WorkflowError as error:
            reason = str(error) if completion.ended else f"{error} (cut off after {len(completion.ids)} tokens)"
            return Plan(
                None, raw_valid=False, decisions=decisions, logp=logp, error=reason, truncated=cut_off, text=text
            )
        raw_valid = found.whole and completion.ended and not found.workflow.repeats()
        return Plan(found.workflow, raw_valid=raw_valid, decisions=decisions, logp=logp, truncated=cut_off, text=text)
