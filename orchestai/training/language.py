"""Phase 1 of a language model: it learns to write the plans of a training file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from rich.progress import Progress
from torch import Tensor

from orchestai.config import Config, Phase1Config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import without_suffix
from orchestai.planner.language.checkpoint import (
    load_language_planner,
    open_language_planner,
    read_state,
    save_language_planner,
)
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.language.teaching import ImpossibleParents, completion_logits
from orchestai.training.data_format import TrainingExample, load_training_data
from orchestai.training.dataset import LengthGroupedBatches
from orchestai.training.epochs import Epochs, short
from orchestai.training.figures import Tally
from orchestai.training.lessons import PlanLesson, UnteachableError, make_lesson
from orchestai.training.phase1 import (
    BEST,
    LAST,
    Lesson,
    Summary,
    identity_of,
    open_progress,
    require,
    run,
    split_examples,
)
from orchestai.training.plan_figures import plan_figures
from orchestai.training.rl.distributed import open_accelerator
from orchestai.workers.pool import worker_cards

_OF_THE_BEST = ("epoch", "val_loss", "seed", "identity")
"""Facts beside the best epoch; nobody goes on from there, so it needs no states."""
Pairs = Sequence[tuple[TrainingExample, PlanLesson]]


def train(config: Config, *, data: Path, output_dir: Path, resume: bool = False) -> Summary:
    """Train the configured language model on the examples in `data`; the best epoch is kept in `output_dir`.

    Raises:
        UserError: the data, the model, the configuration or the state to resume cannot be used, or the loss is no
            longer finite.
    """
    settings = config.training.phase1_supervised
    examples = load_training_data(data, config)
    learned, held_out = split_examples(examples, settings.val_fraction, settings.seed, data)
    best, last = (without_suffix(output_dir / name) for name in (BEST, LAST))
    cards = worker_cards(config.workers)
    torch.manual_seed(settings.seed)
    accelerator = open_accelerator(output_dir, config.logging)
    if resume:
        require(last)
        planner = load_language_planner(last, config, cards)
    else:
        texts = [text for example in learned for text in (example.instruction, *example.targets.instructions)]
        planner = open_language_planner(config, cards, texts)
    planner.to(accelerator.device)

    def save(path: Path, facts: Mapping[str, Any]) -> None:
        known = facts if path == last else {key: facts[key] for key in _OF_THE_BEST}
        save_language_planner(path, planner, config, **known)

    with open_progress() as progress:
        taught, kept = (_teachable(some, planner, data, progress) for some in (learned, held_out))
        writing = LanguageImitation(planner, taught, kept, settings, accelerator)
        lesson = Lesson(writing, best, last, save, read_state, len(taught), len(kept))
        identity = identity_of(config, examples)
        return run(lesson, config, output_dir, identity, progress, accelerator, resume=resume)


def _teachable(
    examples: Sequence[TrainingExample], planner: LanguagePlanner, data: Path, progress: Progress
) -> list[tuple[TrainingExample, PlanLesson]]:
    """The examples whose prompts and plans have room, in tokens."""
    pairs, reasons = [], []
    for example in examples:
        try:
            pairs.append((example, make_lesson(example, planner)))
        except UnteachableError as error:
            reasons.append(f"{example.task_id or example.instruction[:40]!r}: {error}")
    if reasons:
        progress.console.print(f"{data}: left out {len(reasons)} of {len(examples)} examples, such as {reasons[0]}")
    if not pairs:
        raise UserError(
            f"{data}: nothing to learn from or to validate on is left; raise planner.language.max_prompt_tokens or "
            "max_new_tokens"
        )
    return pairs


class Losses(NamedTuple):
    """Sums over some rows, with gradient, and how many tokens were predicted right."""

    token: Tensor
    dag: Tensor
    right: int


class LanguageImitation(Epochs):
    """Trains a language model on completions alone.

    The loss of an optimiser step is the mean of -log p over all completion tokens that the examples vouch for, the
    end of the sequence among them, plus `lambda_dag` times the mean of the DAG-validity term (see `ImpossibleParents`)
    over all tokens that name a parent. Neither depends on how the step is cut into forward passes.
    """

    def __init__(
        self,
        planner: LanguagePlanner,
        train: Pairs,
        validation: Pairs,
        settings: Phase1Config,
        accelerator: Accelerator,
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self._autocast = accelerator.autocast
        vocabulary = planner.model.get_output_embeddings().weight.shape[0]
        self._impossible = ImpossibleParents(planner.tokenizer, planner.config.max_subtasks, vocabulary)
        self._lengths = [len(lesson) for _, lesson in train]
        super().__init__(planner, settings, -(-len(train) // settings.batch_size))

    def batches(self, epoch: int) -> LengthGroupedBatches:
        return LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def backward(self, rows: list[int]) -> dict[str, float]:
        lessons = [self.train[row][1] for row in rows]
        tokens, parents = _counts(lessons)
        token = dag = 0.0
        for part in self._micro_batches(lessons):
            losses = self._losses(part)
            loss = losses.token / tokens + self.settings.lambda_dag * losses.dag / parents
            loss.backward()  # type: ignore[no-untyped-call]
            token, dag = token + losses.token.item() / tokens, dag + losses.dag.item() / parents
        return {"total_loss": token + self.settings.lambda_dag * dag, "token_loss": token, "dag_loss": dag}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses on all examples held out, and figures of greedy plans for the first `eval_plans` of them."""
        self.planner.eval()
        lessons = [lesson for _, lesson in self.validation]
        tokens, parents = _counts(lessons)
        tally = Tally()
        token = dag = 0.0
        right = 0
        for part in self._micro_batches(sorted(lessons, key=len)):
            losses = self._losses(part)
            token, dag = token + losses.token.item() / tokens, dag + losses.dag.item() / parents
            right += losses.right
        total = {"total_loss": token + self.settings.lambda_dag * dag, "token_loss": token, "dag_loss": dag}
        for name, value in total.items():
            tally.add(short("val", name), value)
        some = self.validation[: self.planner.config.language.eval_plans]
        plans = self.planner.plan_instructions([example.instruction for example, _ in some])
        wanted = [lesson.workflow for _, lesson in some]
        figures = plan_figures(plans, wanted, [example for example, _ in some])
        return {**tally.means(), "token_accuracy": right / tokens, **figures}

    def _losses(self, lessons: Sequence[PlanLesson]) -> Losses:
        with self._autocast():
            logits, ids, _ = completion_logits(
                self.planner.model, [lesson.prompt for lesson in lessons], [lesson.completion for lesson in lessons]
            )
        learned = torch.zeros(ids.shape, dtype=torch.bool)
        for row, lesson in enumerate(lessons):
            learned[row, : len(lesson.learned)] = lesson.learned
        chosen, wanted = logits[learned.to(ids.device)], ids[learned.to(ids.device)]
        token = torch.nn.functional.cross_entropy(chosen, wanted, reduction="sum")
        slots = [(row, slot) for row, lesson in enumerate(lessons) for slot in lesson.parents]
        places = [row for row, _ in slots], [slot.token for _, slot in slots]
        steps, further = [slot.step for _, slot in slots], [slot.further for _, slot in slots]
        dag = self._impossible.masses(logits[places], steps, further).sum()
        return Losses(token, dag, int((chosen.argmax(-1) == wanted).sum()))

    def _micro_batches(self, lessons: Sequence[PlanLesson]) -> Iterator[list[PlanLesson]]:
        """Neighbours, as many as `micro_batch_tokens` allows when they are padded to the longest; at least one."""
        most = self.planner.config.language.micro_batch_tokens
        part: list[PlanLesson] = []
        for lesson in lessons:
            together = [*part, lesson]
            padded = max(len(one.prompt) for one in together) + max(len(one.completion) for one in together)
            if part and padded * len(together) > most:
                yield part
                part = []
            part.append(lesson)
        yield part


def _counts(lessons: Sequence[PlanLesson]) -> tuple[int, int]:
    """Learned tokens, and tokens that name a parent; at least 1 each."""
    tokens = sum(int(lesson.learned.sum()) for lesson in lessons)
    return max(tokens, 1), max(sum(len(lesson.parents) for lesson in lessons), 1)
