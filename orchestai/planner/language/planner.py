"""The planner that is a language model: it reads a prompt and writes the plan as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.lm.length_batches import length_batches
from orchestai.lm.local_models import PLANNER
from orchestai.lm.sampling import Completion
from orchestai.lm.token_policy import TokenPolicy
from orchestai.planner.base import Plan
from orchestai.planner.language.plan_text import read_plan
from orchestai.planner.language.planner import PromptTooLongError, PromptWriter
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec, TokenDecisions
from orchestai.workers.base import WorkerCard
from orchestai.workflow import WorkflowError


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

    def plan_steps(self, instructions: Sequence[str], steps: Sequence[Sequence[tuple[int, int]]]) -> list[Plan]:
        """`plan_instructions`: the steps stand in the instructions, and are written out in the plan."""
        return self.plan_instructions(instructions)

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
