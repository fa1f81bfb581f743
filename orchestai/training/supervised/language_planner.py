"""Phase 1 of a language model: it learns to write the plans of a training file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.config import Phase1Config
from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.planner.files import STATE_KEY
from orchestai.planner.language.checkpoint import (
    load_language_planner,
    open_language_planner,
    read_state,
    save_language_planner,
)
from orchestai.planner.language.plan_text import without_workers, write_plan
from orchestai.planner.language.planner import LanguagePlanner, PromptTooLongError
from orchestai.tasks.splits import SEEN
from orchestai.training.distributed import interleave, share, together
from orchestai.training.learner import Learner, NotFiniteError, autocast_format
from orchestai.training.supervised.dataset import LengthGroupedBatches
from orchestai.training.supervised.metrics import RunningMean, written_plans_metrics
from orchestai.training.supervised.run import LAST, Epochs, RunState, Setup, short, split_examples
from orchestai.workflow import Workflow


class UnusableExampleError(ValueError):
    """The example cannot be learned from; the message says why."""


@dataclass(frozen=True)
class ParentSlot:
    """A token of a completion that names a parent.

    Attributes:
        token: its index.
        step: index of the step that depends, from 0.
        further: whether another parent stands before it.
    """

    token: int
    step: int
    further: bool


@dataclass(frozen=True, eq=False)
class TokenizedExample:
    """One example in tokens.

    Attributes:
        example: as it is in the training file.
        prompt: (tokens,) int64.
        completion: (tokens,) int64; ends with the end-of-sequence token.
        learned: (completion tokens,) bool; False where the example leaves the choice open.
        parents: the tokens that the DAG-validity term is about.
        workflow: the plan, as `workflow_of` gives it.
    """

    example: TrainingExample
    prompt: Tensor
    completion: Tensor
    learned: Tensor
    parents: tuple[ParentSlot, ...]
    workflow: Workflow

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def tokenize(example: TrainingExample, planner: LanguagePlanner) -> TokenizedExample:
    """The example for this planner. An execution that failed teaches how to decompose, but not whom to ask.

    Raises:
        UnusableExampleError: the prompt or the plan is too long, or a subtask has no words.
    """
    wanted = workflow_of(example, planner)
    logged = _completed(example.workflow, wanted, planner)
    plan = write_plan(logged, example.instruction, planner.config.language.quote)
    encoded = planner.tokenizer(plan.text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    try:
        prompt = planner.prompts.write(example.instruction)
    except PromptTooLongError as error:
        raise UnusableExampleError(str(error)) from None
    if len(ids) + 1 > planner.max_slots:
        raise UnusableExampleError(
            f"a plan of {len(ids) + 1} tokens, but planner.language.max_new_tokens is {planner.max_slots}"
        )
    # [start, end) of the values that the example does not vouch for
    hidden = [
        (mark.start, mark.end)
        for mark in plan.marks
        if (mark.field in ("worker", "fallback") and not wanted.subtasks[mark.step].worker)
        or (mark.field == "task_type" and not wanted.subtasks[mark.step].task_type)
    ]
    learned = [not any(start < b and a < end for a, b in hidden) for start, end in offsets]
    parents: list[ParentSlot] = []
    for mark in plan.marks:
        if mark.field == "depends_on":
            further = bool(parents) and parents[-1].step == mark.step
            parents.append(ParentSlot(token_at(offsets, mark.start), mark.step, further))
    end_id = planner.tokenizer.eos_token_id
    return TokenizedExample(
        example=example,
        prompt=prompt,
        completion=torch.tensor([*ids, end_id], dtype=torch.long),
        learned=torch.tensor([*learned, True]),
        parents=tuple(parents),
        workflow=wanted,
    )


def workflow_of(example: TrainingExample, planner: LanguagePlanner) -> Workflow:
    """What an example vouches for, as this planner would write it: each step has words, if need be those of its span.

    Where a step is listed before one that it needs, the steps are put into an order in which they can be done.

    Raises:
        UnusableExampleError: a subtask has no words.
    """
    workflow = example.imitated if planner.config.language.assign else without_workers(example.workflow)
    words: dict[str, dict[str, Any]] = {}
    for number, subtask in enumerate(workflow.subtasks, start=1):
        known = subtask.instruction or (example.instruction[slice(*subtask.span)] if subtask.span is not None else "")
        if not known:
            raise UnusableExampleError(f"subtask {number} has no words")
        words[subtask.id] = {"instruction": known}
    workflow = workflow.replace(words)
    listed = all(parent < child for child, parents in enumerate(workflow.dependencies()) for parent in parents)
    return workflow if listed else Workflow(workflow.order())


def _completed(logged: Workflow, wanted: Workflow, planner: LanguagePlanner) -> Workflow:
    """`wanted` with the logged types and workers, the first where there is none, and no more than can be written."""
    config = planner.config
    if not config.language.assign:
        return wanted
    first, most = planner.cards[0].name, config.max_fallbacks
    return wanted.replace(
        {
            subtask.id: {
                "task_type": subtask.task_type or config.task_types[0],
                "worker": subtask.worker or first,
                "fallback": subtask.fallback[:most],
            }
            for subtask in logged.subtasks
        }
    )


_OF_THE_BEST = ("epoch", "val_loss", "seed", "identity", "reward_reference", SEEN, STATE_KEY)
"""Facts beside the best epoch; nobody goes on from there, so it needs no states."""


def begin(setup: Setup) -> RunState:
    """Open the language model, and the examples that it has room for."""
    config, last = setup.config, setup.checkpoint(LAST)
    learned, held_out = split_examples(setup.examples, config.tasks, setup.data, setup.seen_before)
    before = last if setup.resume else setup.start
    if before is not None:
        planner = load_language_planner(before, config.planner, config.workers)
    else:
        texts = []
        for example in learned:
            texts += [example.instruction, *(subtask.instruction for subtask in example.workflow.subtasks)]
        planner = open_language_planner(config.planner, config.workers, texts)
    planner.multiply_in(autocast_format(setup.accelerator))

    def save(path: Path, facts: Mapping[str, Any]) -> None:
        known = facts if path == last else {key: facts[key] for key in _OF_THE_BEST}
        save_language_planner(path, planner, config, **known)

    train, validation = (_usable(some, planner, setup) for some in (learned, held_out))
    imitation = LanguageImitation(planner, train, validation, setup.settings, setup.accelerator)
    examples = ([tokenized.example for tokenized in some] for some in (train, validation))
    return RunState(imitation, save, read_state, *examples)


def _usable(examples: Sequence[TrainingExample], planner: LanguagePlanner, setup: Setup) -> list[TokenizedExample]:
    """The examples whose prompts and plans have room, in tokens."""
    usable, reasons = [], []
    for example in examples:
        try:
            usable.append(tokenize(example, planner))
        except UnusableExampleError as error:
            reasons.append(f"{example.task_id or example.instruction[:40]!r}: {error}")
    if reasons:
        said = f"{setup.data}: left out {len(reasons)} of {len(examples)} examples, such as {reasons[0]}"
        setup.progress.console.print(said)
    if not usable:
        raise UserError(
            f"{setup.data}: nothing to learn from or to validate on is left; raise "
            "planner.language.max_prompt_tokens or max_new_tokens"
        )
    return usable


class PlanLoss(nn.Module):
    """The loss of some examples; see `LanguageImitation`."""

    def __init__(self, planner: LanguagePlanner, lambda_dag: float) -> None:
        super().__init__()
        self.planner = planner
        self._lambda_dag = lambda_dag
        vocabulary = planner.model.get_output_embeddings().weight.shape[0]
        self._impossible = ImpossibleParents(planner.tokenizer, planner.config.max_subtasks, vocabulary)

    def forward(self, examples: Sequence[TokenizedExample], counts: Counts) -> tuple[Tensor, Tensor]:
        """Their share of the loss of the examples that `counts` describes, with gradient.

        Also (3,) float64 shares without gradient: of the loss of tokens, of the DAG-validity term, and of tokens that
        are predicted right.
        """
        logits, ids, _ = completion_logits(
            self.planner.model, [one.prompt for one in examples], [one.completion for one in examples]
        )
        learned = torch.zeros(ids.shape, dtype=torch.bool)
        for row, example in enumerate(examples):
            learned[row, : len(example.learned)] = example.learned
        chosen, wanted = logits[learned.to(ids.device)], ids[learned.to(ids.device)]
        token = cross_entropy(chosen, wanted, reduction="sum") / counts.tokens
        slots = [(row, slot) for row, example in enumerate(examples) for slot in example.parents]
        places = [row for row, _ in slots], [slot.token for _, slot in slots]
        steps, further = [slot.step for _, slot in slots], [slot.further for _, slot in slots]
        dag = self._impossible.masses(logits[places], steps, further).sum() / counts.parents
        right = (chosen.argmax(-1) == wanted).sum() / counts.tokens
        return token + self._lambda_dag * dag, torch.stack([token, dag, right]).detach().double()


class Counts(NamedTuple):
    """Learned tokens, and tokens that name a parent, of all examples of a step; infinite where nothing is learned."""

    tokens: float
    parents: float


class LanguageImitation(Epochs):
    """Trains a language model on completions alone.

    The loss of an optimizer step is the mean of -log p over all completion tokens that the examples vouch for, the
    end of the sequence among them, plus `lambda_dag` times the mean of the DAG-validity term (see `ImpossibleParents`)
    over all tokens that name a parent. Neither depends on how the step is cut into forward passes, or on how many
    processes share them.
    """

    def __init__(
        self,
        planner: LanguagePlanner,
        train: Sequence[TokenizedExample],
        validation: Sequence[TokenizedExample],
        settings: Phase1Config,
        accelerator: Accelerator,
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self.accelerator = accelerator
        self.learner = Learner(
            accelerator,
            planner,
            lambda learns: PlanLoss(learns, settings.lambda_dag),
            settings,
        )
        self._lengths = [len(example) for example in train]
        super().__init__(self.learner.optimizer, settings, -(-len(train) // settings.batch_size))

    def batches(self, epoch: int) -> LengthGroupedBatches:
        return LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def step(self, rows: list[int]) -> dict[str, float]:
        self.learner.module.train()
        try:
            with together(self.accelerator, f"taking a step of epoch {self.epoch + 1}"):
                results, _ = self.learner.step(self.passes(rows))
                found = self.accelerator.reduce(sum(shares for (shares,) in results), "sum")
        except NotFiniteError:
            return {"total_loss": math.nan}
        return self._named(found)

    def passes(self, rows: Sequence[int]) -> list[tuple[list[TokenizedExample], Counts]]:
        """This process's forward passes of a step, as many as any other's; some may have nothing to learn."""
        examples = [self.train[row] for row in rows]
        processes = self.accelerator.num_processes
        parts = [list(self._micro_batches(examples[rank::processes])) for rank in range(processes)]
        mine, counts = parts[self.accelerator.process_index], _counts(examples)
        idle = max(map(len, parts)) - len(mine)
        return [(part, counts) for part in mine] + [(examples[:1], Counts(math.inf, math.inf))] * idle

    @property
    def plans_judged(self) -> int:
        return min(self.planner.config.language.eval_plans, len(self.validation))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses on all examples held out, and metrics of greedy plans for the first `eval_plans` of them."""
        self.learner.sync()
        self.planner.eval()
        counts, loss = _counts(self.validation), PlanLoss(self.planner, self.settings.lambda_dag)
        found = torch.zeros(3, dtype=torch.float64, device=self.accelerator.device)
        for part in share(list(self._micro_batches(sorted(self.validation, key=len))), self.accelerator):
            with self.accelerator.autocast():
                found += loss(part, counts)[1]
        some = self.validation[: self.planner.config.language.eval_plans]
        mine = self.planner.plan_instructions(share([one.example.instruction for one in some], self.accelerator))
        with together(self.accelerator, f"validating epoch {self.epoch + 1}"):
            found = self.accelerator.reduce(found, "sum")
            plans = interleave(gather_object([mine]))
        running = RunningMean()
        for name, value in self._named(found).items():
            running.add(short("val", name), value)
        metrics = written_plans_metrics(plans, [one.workflow for one in some])
        return {**running.means(), "token_accuracy": found[2].item(), **metrics}

    def optimizer_state(self) -> dict[str, Any]:
        return self.learner.state()

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        self.learner.load_state(state)

    def _named(self, shares: Tensor) -> dict[str, float]:
        token, dag, _ = shares.tolist()
        return {"total_loss": token + self.settings.lambda_dag * dag, "token_loss": token, "dag_loss": dag}

    def _micro_batches(self, examples: Sequence[TokenizedExample]) -> Iterator[list[TokenizedExample]]:
        """Neighbors, as many as `micro_batch_tokens` allows when they are padded to the longest; at least one."""
        most = self.planner.config.language.micro_batch_tokens
        part: list[TokenizedExample] = []
        for example in examples:
            together = [*part, example]
            padded = max(len(one.prompt) for one in together) + max(len(one.completion) for one in together)
            if part and padded * len(together) > most:
                yield part
                part = []
            part.append(example)
        if part:
            yield part


def _counts(examples: Sequence[TokenizedExample]) -> Counts:
    tokens = sum(int(example.learned.sum()) for example in examples)
    return Counts(max(tokens, 1), max(sum(len(example.parents) for example in examples), 1))


_CONTEXTS = ('"fallback":[],"depends_on":[', '"fallback":[],"depends_on":[1,')
"""What comes before the first id in a list of parents, and before a further one."""


def completion_logits(
    model: PreTrainedModel, prompts: Sequence[Tensor], completions: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of every token of every completion; the output layer sees no others.

    Args:
        prompts: per row (tokens,) int64, at least one token.
        completions: per row (tokens,) int64.

    Returns:
        (rows, tokens of the longest completion, vocabulary) float32 logits with gradient, the ids that they are about,
        and a mask of those that exist.
    """
    device = model.device
    width, length = max(map(len, prompts)), max(map(len, completions))
    ids = torch.zeros(len(prompts), width + length, dtype=torch.long)
    exists = torch.zeros_like(ids, dtype=torch.bool)
    for row, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        first, last = width - len(prompt), width + len(completion)
        ids[row, first:last] = torch.cat([prompt, completion])
        exists[row, first:last] = True
    ids, exists = ids.to(device), exists.to(device)
    output: Any = model(
        input_ids=ids,
        attention_mask=exists.long(),
        position_ids=(exists.cumsum(1) - 1).clamp(min=0),
        logits_to_keep=length + 1,
        use_cache=False,
    )
    return output.logits[:, :-1].float(), ids[:, width:], exists[:, width:]


class ImpossibleParents:
    """The tokens that stand for parents which a step cannot have: itself, later steps, and steps that cannot exist.

    The DAG-validity term of a position where an id is written among the parents of step i is

        V = sum of softmax(logits)[v] over v in T(i),

    where T(i) holds the first tokens of the ids i, i + 1, ..., `most`, without those that also begin an id below i.

    Args:
        most: highest id that is looked at (`planner.max_subtasks`).
        vocabulary: width of the logits.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int, vocabulary: int) -> None:
        self._forbidden = torch.zeros(len(_CONTEXTS), most, vocabulary, dtype=torch.bool)
        for place, context in enumerate(_CONTEXTS):
            first = []
            for k in range(1, most + 1):
                encoded = tokenizer(f"{context}{k}]", add_special_tokens=False, return_offsets_mapping=True)
                first.append(int(encoded["input_ids"][token_at(encoded["offset_mapping"], len(context))]))
            for i in range(most):
                self._forbidden[place, i, sorted({*first[i:]} - {*first[:i]})] = True

    def masses(self, logits: Tensor, steps: Sequence[int], further: Sequence[bool]) -> Tensor:
        """V at each of k positions; (k,) with gradient.

        Args:
            logits: (k, vocabulary).
            steps: index of the step that depends, from 0.
            further: whether an id stands before this one in the list.
        """
        places = torch.tensor(further, dtype=torch.long), torch.tensor(steps, dtype=torch.long)
        return (logits.softmax(-1) * self._forbidden[places].to(logits.device)).sum(-1)


def token_at(offsets: Sequence[tuple[int, int]], character: int) -> int:
    """Index of the token that covers a character.

    Args:
        offsets: [start, end) of each token.
    """
    return next(i for i, (start, end) in enumerate(offsets) if start <= character < end)
