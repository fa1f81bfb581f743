"""Phase 1 as a run: epoch after epoch into an output folder, and on from there; the same for every kind of planner."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from rich.console import Console
from rich.progress import Progress

from orchestai.config import OF_SERVING, BackendConfig, Config, Phase1Config, TasksConfig
from orchestai.data.training_file import TrainingExample, data_fingerprint, logged_reference
from orchestai.errors import UserError
from orchestai.planner.checkpoint import estimate_state_of, read_facts, reference_of, seen_by
from orchestai.planner.checkpoint_files import fingerprint_of, without_suffix
from orchestai.planner.stored_estimate import STATE_KEY, estimate_path, read_state
from orchestai.progress import console, open_progress
from orchestai.storage import artifacts
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks, divide
from orchestai.training.distributed import on_main
from orchestai.training.supervised.epochs import Epochs, judged_by, kept_epoch
from orchestai.workers.pool import worker_cards

logger = logging.getLogger(__name__)
BEST, LAST, METRICS = "phase1_best.pth", "phase1_last.pth", "phase1_metrics.jsonl"
SEEN_BEFORE = "seen_before"
"""The key of a checkpoint with what the weights that its run began with had seen of tasks."""


@dataclass(frozen=True)
class Summary:
    """The best epoch, counted from 1, and its figures."""

    epoch: int
    val_loss: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """What a run begins with, whatever the planner is.

    Attributes:
        data: the training file; `examples` are all that it holds.
        resume: go on after the last epoch that was finished in `output_dir`.
        start: a planner to begin with; None begins anew. A run that is resumed knows it.
    """

    config: Config
    data: Path
    examples: Sequence[TrainingExample]
    output_dir: Path
    resume: bool
    accelerator: Accelerator
    progress: Progress
    start: Path | None = None

    @property
    def settings(self) -> Phase1Config:
        return self.config.training.phase1_supervised

    @property
    def seen_before(self) -> SeenTasks:
        """What the weights that the run began with had seen of tasks; the same when it is resumed."""
        if self.resume:
            known = read_facts(self.checkpoint(LAST))
            return SeenTasks.of_checkpoint(known, SEEN_BEFORE) if SEEN_BEFORE in known else NOTHING_SEEN
        return NOTHING_SEEN if self.start is None else seen_by(self.start)

    def checkpoint(self, name: str) -> Path:
        """Where the planner called `name` (`BEST` or `LAST`) is kept."""
        return _checkpoint(self.config, self.output_dir, name)


@dataclass(frozen=True)
class RunState:
    """What a run of phase 1 needs of the kind of planner that it trains.

    Attributes:
        epochs: train it.
        save: writes the planner of now to a path, and facts beside it.
        read: the facts that `save` wrote.
        learned, held_out: the examples.
    """

    epochs: Epochs
    save: Callable[[Path, Mapping[str, Any]], None]
    read: Callable[[Path], Mapping[str, Any]]
    learned: Sequence[TrainingExample]
    held_out: Sequence[TrainingExample]

    @property
    def seen(self) -> SeenTasks:
        """What its planner has seen of tasks: what was asked and, where steps were given, these with it."""
        return SeenTasks.of(
            *((words for one in some for words in (one.asked, _words(one))) for some in (self.learned, self.held_out))
        )


def run(setup: Setup, state: RunState) -> Summary:
    """Train until the epochs are finished; keep the one whose plans of held-out examples are right most often.

    Raises:
        UserError: there is nothing, or something else, to resume, the loss is no longer finite, or a file cannot be
            written.
    """
    accelerator, progress, settings, epochs = setup.accelerator, setup.progress, setup.settings, state.epochs
    saved = state.read(setup.checkpoint(LAST)) if setup.resume else {}
    identity = identity_of(setup.config, setup.data)
    before = setup.seen_before
    seen = state.seen | before | (SeenTasks.of_checkpoint(saved) if setup.resume else NOTHING_SEEN)
    if setup.start is not None:
        identity["start"] = fingerprint_of(setup.start)
    elif "start" in saved.get("identity", {}):
        identity["start"] = saved["identity"]["start"]
    history = _resume(setup, state, saved, identity) if setup.resume else []
    known = {
        "seed": settings.seed,
        "identity": identity,
        **_of_workers(setup),
        **before.facts(SEEN_BEFORE),
        **seen.facts(),
    }
    info = partial(artifacts.save_run_info, setup.output_dir, setup.config, command="phase1", seed=settings.seed)
    on_main(accelerator, partial(info, **identity), "beginning")
    line = progress.add_task("phase 1", total=settings.num_epochs, completed=epochs.epoch, status="")
    while not epochs.finished:
        metrics = epochs.run_epoch(lambda share: progress.update(line, completed=epochs.epoch + share))
        history.append({"epoch": epochs.epoch, **metrics})
        facts = epochs.state_dict() | known
        on_main(accelerator, partial(_save, setup, state, history, facts), f"saving epoch {epochs.epoch}")
        accelerator.log(metrics, step=epochs.epoch)
        right = metrics.get("exact_plan", judged_by(metrics))
        shown = f"loss {metrics['train_loss']:.3f}  val {metrics['val_loss']:.3f}  right {right:.0%}"
        progress.update(line, completed=epochs.epoch, status=shown)
    accelerator.end_training()
    best = kept_epoch(history, epochs.plans_judged)
    summary = Summary(int(best["epoch"]), best["val_loss"], best)
    progress.console.print(_said(setup, state, summary), highlight=False)
    return summary


def _of_workers(setup: Setup) -> dict[str, Any]:
    """What was measured of workers, by the data or else by the planner that the run begins with, or goes on with."""
    reference, estimate = logged_reference(setup.data), read_state(estimate_path(setup.data))
    before = setup.checkpoint(LAST) if setup.resume else setup.start
    if before is not None:
        reference = reference or reference_of(before)
        estimate = estimate or estimate_state_of(before)
    return {"reward_reference": None if reference is None else asdict(reference), STATE_KEY: estimate}


def _save(setup: Setup, state: RunState, history: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    artifacts.write_text(setup.output_dir / METRICS, "".join(json.dumps(row) + "\n" for row in history))
    if kept_epoch(history, state.epochs.plans_judged) is history[-1]:
        state.save(setup.checkpoint(BEST), {**facts, "val_loss": history[-1]["val_loss"]})
    state.save(setup.checkpoint(LAST), facts)


def split_examples(
    examples: Sequence[TrainingExample], tasks: TasksConfig, data: Path, seen: SeenTasks = NOTHING_SEEN
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """Examples to learn from, and examples held out: those marked so, or, where none is, a share of the tasks.

    Examples for tests are in neither. What is reworded is where the task is that it was made from. Nothing is held out
    that is learned from, too, here or in an earlier training.

    Args:
        seen: what the weights have seen before.

    Raises:
        UserError: nothing would be left for one of them.
    """
    held_out = [example for example in examples if example.split == "validation"]
    learned = [example for example in examples if example.split == "train"]
    if not held_out:
        known = sorted(learned, key=lambda example: example.augmented)
        asked: dict[str, str] = {}
        origins = [asked.setdefault(example.task_id or example.asked, example.asked) for example in known]
        parts = divide(origins, tasks, ("train", "validation"))
        learned, held_out = (
            [example for example, its in zip(known, parts, strict=True) if its == part]
            for part in ("train", "validation")
        )
    if not learned or not held_out:
        raise UserError(
            f"{data}: {len(learned)} examples to learn from and {len(held_out)} to validate on; both are needed, so "
            "collect executions of more tasks"
        )
    seen |= SeenTasks.of(map(_words, learned))
    unseen = [example for example in held_out if not seen.has_learned(_words(example))]
    if not unseen:
        raise UserError(
            f"{data}: nothing is left to validate on, as all {len(held_out)} examples held out are learned from, here "
            "or by the planner that this run begins with; hold other tasks out"
        )
    if len(unseen) < len(held_out):
        logger.warning(
            "%s: left out %d of %d examples held out, which are learned from, here or by the planner that this run "
            "begins with",
            data,
            len(held_out) - len(unseen),
            len(held_out),
        )
    return learned, unseen


def _words(example: TrainingExample) -> str:
    """What makes an example the same as another: what is asked, and where steps are given these, too."""
    return example.instruction if example.given else example.asked


def identity_of(config: Config, data: Path) -> dict[str, Any]:
    """What decides the course of a run, apart from how long it may go on."""
    settings = config.training.phase1_supervised
    length = {"num_epochs"} if settings.lr_schedule == "plateau" else set()
    of_phase2: Any = {"language": set(BackendConfig.model_fields)}  # who samples from a language model
    return {
        "planner": config.planner.model_dump(mode="json", exclude=dict.fromkeys(OF_SERVING, True) | of_phase2),
        "pool": [card.name for card in worker_cards(config.workers)],
        "phase1_supervised": settings.model_dump(mode="json", exclude=length),
        "data_fingerprint": data_fingerprint(data),
    }


def check_folder(config: Config, output_dir: Path, *, resume: bool) -> None:
    """Raise `UserError` where there is nothing to go on from, or a run of either kind of planner to overwrite."""
    last = _checkpoint(config, output_dir, LAST)
    artifacts.check_run(last, last.with_suffix(".pth"), last.with_suffix(""), resume=resume)


def _checkpoint(config: Config, output_dir: Path, name: str) -> Path:
    """A file, or a folder for a language model."""
    return without_suffix(output_dir / name) if config.planner.kind == "language" else output_dir / name


def progress_lines(accelerator: Accelerator) -> Progress:
    """Lines on the terminal; on the main process alone."""
    return open_progress(console=console if accelerator.is_main_process else Console(quiet=True))


def _resume(
    setup: Setup, state: RunState, saved: Mapping[str, Any], identity: Mapping[str, Any]
) -> list[dict[str, float]]:
    """Put the last state into the epochs; gives the metrics of those that are done."""
    path, written = setup.checkpoint(LAST), setup.output_dir / METRICS
    for key, now in identity.items():
        before = saved["identity"].get(key)
        if isinstance(now, dict) and isinstance(before, dict):
            changed = [k for k in now if before.get(k) != now[k]]
        else:
            changed = [] if before == now else [f"{before!r} is now {now!r}"]
        if changed:
            remedy = "restore it, or start a new run in another output folder"
            if changed == ["num_epochs"]:
                remedy = (
                    "with lr_schedule=linear the learning rate ends at 0 there, so this run can be made neither longer "
                    f"nor shorter; {remedy}"
                )
            raise UserError(f"{path}: cannot resume, {key} has changed ({', '.join(changed)}); {remedy}")
    state.epochs.load_state_dict(saved)
    try:
        rows = [json.loads(line) for line in written.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{written}: not readable ({error}); start a new run in another output folder") from None
    return [row for row in rows if row["epoch"] <= state.epochs.epoch]


def _said(setup: Setup, state: RunState, best: Summary) -> str:
    shown = {
        "exact decomposition": "exact_decomposition",
        "exact plan": "exact_plan",
        "edge F1": "edge_f1",
        "raw validity": "raw_validity",
        "workers": "worker_accuracy",
        "types": "type_accuracy",
    }
    figures = ", ".join(f"{name} {best.metrics[key]:.1%}" for name, key in shown.items() if key in best.metrics)
    return (
        f"{setup.checkpoint(BEST)}: epoch {best.epoch} on {len(state.learned)} examples; "
        f"on {len(state.held_out)} held out: loss {best.val_loss:.3f}, {figures}"
    )
