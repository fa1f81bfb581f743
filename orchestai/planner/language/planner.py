"""The planner that is a language model: it reads a prompt and writes the plan as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.config import PlannerConfig
from orchestai.lm.length_batches import length_batches
from orchestai.lm.local_models import PLANNER
from orchestai.lm.sampling import Completion
from orchestai.lm.token_policy import TokenPolicy
from orchestai.planner.base import Plan
from orchestai.planner.language.plan_text import read_plan
from orchestai.planner.language.prompt import PromptTooLongError, PromptWriter
from orchestai.planner.plan_metrics import edges_of, f1, is_right, match_spans, shared_edges
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec, TokenDecisions
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Workflow, WorkflowError


def most_agreed(plans: Sequence[Plan]) -> Plan:
    """The valid plan that shares most with all others on average; the first of several, and of none that is valid.

    With F1 of steps and edges as what a plan is worth, this is the plan of least expected loss under the samples
    (minimum Bayes risk; Kumar and Byrne 2004). Invalid plans share nothing. Its confidence is the share of the others
    that are the same plan.
    """
    valid = [plan for plan in plans if plan.workflow is not None and plan.raw_valid]
    if not valid:
        return plans[0]
    best = max(valid, key=lambda plan: sum(shared(plan, other) for other in valid if other is not plan))
    same = sum(is_right(_workflow(other), _workflow(best)) for other in valid if other is not best)
    return replace(best, logp=None, confidence=same / max(len(plans) - 1, 1))


def shared(plan: Plan, other: Plan) -> float:
    """F1 of the steps and edges, counted together, that two valid plans have in common."""
    a, b = _workflow(plan), _workflow(other)
    match, ours, theirs = match_spans(a, b), edges_of(a), edges_of(b)
    return f1(len(match) + shared_edges(ours, theirs, match), len(a) + len(ours), len(b) + len(theirs))


def _workflow(plan: Plan) -> Workflow:
    assert plan.workflow is not None
    return plan.workflow


_TEMPERATURE = 0.7
"""At which candidates are drawn, as self-consistency does (Wang et al. 2022, arXiv 2203.11171)."""


class LanguagePlanner(TokenPolicy):
    """Turns instructions into workflows for the workers that `cards` describe, one token after the other.

    A plan that cannot be read is a `Plan` without a workflow, and its tokens are decisions all the same.
    Only a task whose prompt is too long has no decisions.

    Args:
        value_head: estimate the return at every token, for PPO.

    Attributes:

    Raises:
        UserError: the worked examples cannot be used, or the model has no end token.
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
        """Write plans as `planner.language.candidates` says, or sample every token; `explore` does not matter."""
        return self.plan_instructions([task.instruction for task in tasks], sample=sample)

    def plan_instructions(self, instructions: Sequence[str], *, sample: SampleSpec | None = None) -> list[Plan]:
        """`plan` for bare instructions."""
        if sample is not None and len(sample.seeds) != len(instructions):
            raise ValueError(f"{len(instructions)} instructions, but {len(sample.seeds)} seeds")
        further = self.config.language.candidates - 1
        written = self._write(instructions, sample)
        if sample is not None or not further:
            return written
        drawn = SampleSpec(frozenset(), _TEMPERATURE, [*range(further)] * len(instructions))
        others = self._write([one for one in instructions for _ in range(further)], drawn)
        return [most_agreed([plan, *others[i * further :][:further]]) for i, plan in enumerate(written)]

    def _write(self, instructions: Sequence[str], sample: SampleSpec | None) -> list[Plan]:
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
