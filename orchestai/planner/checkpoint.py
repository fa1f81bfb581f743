"""Planners on disk: a folder for a language model, else a file.

The file leaves the frozen encoder and language model out; their names and fingerprints are kept instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from orchestai.config import BASE, CACHE_DIR, Phase2Config, PlannerConfig, RewardsConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.estimate.attempts import WHOLE, Queries, Values
from orchestai.estimate.plan_options import PlanOptions, plan_options
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.reward import Reference, RewardForm, reward_form
from orchestai.planner.base import Plan
from orchestai.planner.base_files import CARD, SHAPES, WEIGHTS, check_base, digest_of, other_version_of, read_base
from orchestai.planner.baselines import whole_task
from orchestai.planner.checkpoint_files import locate, saved_config, without_suffix
from orchestai.planner.language.checkpoint import (
    ESTIMATE,
    load_language_planner,
    open_language_planner,
    other_version,
    read_metadata,
    save_language_planner,
)
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.slots.encoders.encoder import TextEncoder
from orchestai.planner.slots.encoders.sentences import query_features
from orchestai.planner.slots.encoders.step_encoder import StepEncoder
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.stored_estimate import STATE_KEY, of_state, read_state
from orchestai.storage import artifacts, digests
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards


def expected_reward(options: PlanOptions, estimate: PoolEstimate, reward: RewardForm | None) -> Values:
    """(options,) expected rewards of an answer, in rewards of a success.

    Args:
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
    """
    success = estimate.before.apply(options.success)
    if reward is None:
        return success
    usd, seconds, _ = options.spending.T
    spent = [reward.cost(a) + reward.latency(1000 * b) for a, b in zip(usd.tolist(), seconds.tolist(), strict=True)]
    return success - np.array(spent) / (reward.alpha or 1.0)


_PARTS = ("reader.", "decoder.", "confidence.")


def begin_with_base(planner: PlannerModel) -> None:
    """Give a planner the steps and edges of `planner.base`, which stay as they are while its pool is learned.

    Raises:
        UserError: there is no such base planner, it is damaged, or it was made for other shapes or another encoder.
    """
    base = planner.config.base
    check_base(planner.config, planner.encoder.fingerprint)
    weights = read_base(base)
    wanted = {key for key in planner.state_dict() if key.startswith(_PARTS)}
    if weights.keys() != wanted:
        raise other_version_of(base)
    planner.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()}, strict=False)
    planner.base = digest_of(base)


def open_base(planner: PlannerModel) -> PlannerModel:
    """Make a new planner the base planner itself, which knows the cards alone of its pool; in evaluation mode."""
    begin_with_base(planner)
    planner.by_cards = True
    return planner.eval()


def round_to_shipped(planner: PlannerModel) -> None:
    """Round the weights of steps and edges to what `save_base` keeps, so that confidence is fitted to what is used."""
    with torch.no_grad():
        for part in (planner.reader, planner.decoder):
            for parameter in part.parameters():
                parameter.copy_(parameter.bfloat16().float())


def save_base(folder: Path, planner: PlannerModel, card: Mapping[str, Any]) -> str:
    """Write the weights in bfloat16 and the card beside them; gives the digest.

    Raises:
        UserError: they cannot be written.
    """
    learned = {
        f"{name}.{key}" for name in ("reader", "decoder") for key, _ in getattr(planner, name).named_parameters()
    }
    weights = {
        key: value.to(torch.bfloat16) if key in learned else value
        for key, value in planner.state_dict().items()
        if key.startswith(_PARTS)
    }
    content = save({key: value.contiguous() for key, value in weights.items()})
    artifacts.write_bytes(folder / WEIGHTS, content)
    digest = hashlib.sha256(content).hexdigest()[:16]
    shapes = planner.config.model_dump(mode="json", include=set(SHAPES))
    facts = {"digest": digest, "encoder_fingerprint": planner.encoder.fingerprint, "planner": shapes}
    artifacts.write_json(folder / CARD, {**card, **facts})
    return digest


@dataclass(frozen=True)
class RoutingPlanner:
    """Plans each task as one step, with the workers of the highest expected reward.

    Args:
        estimate: of the workers.
        workers: of the pool, by name; those that the estimate does not know are not asked.
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
        longest: most workers to ask, one after the other.
        cache_dir: see `query_features`.
    """

    estimate: PoolEstimate
    workers: Sequence[str]
    reward: RewardForm | None
    longest: int
    cache_dir: Path = field(default=CACHE_DIR)

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """One plan per task; its confidence is 1, since a task that is asked as it stands is split rightly."""
        texts = tuple(task.instruction for task in tasks)
        queries = Queries(texts, (WHOLE,) * len(texts), query_features(texts, self.cache_dir))
        names = self.estimate.workers
        plans = []
        for task, step in zip(tasks, self.estimate.steps(queries), strict=True):
            options = plan_options([step], self._allowed, self.longest)
            [order] = options.workers[int(np.argmax(expected_reward(options, self.estimate, self.reward)))]
            first, *others = (names[place] for place in order)
            workflow = whole_task(task)
            chosen = workflow.replace({workflow.subtasks[0].id: {"worker": first, "fallback": tuple(others)}})
            plans.append(Plan(workflow=chosen, raw_valid=True, confidence=1.0))
        return plans

    @cached_property
    def _allowed(self) -> list[int]:
        return [place for place, name in enumerate(self.estimate.workers) if name in set(self.workers)]


FORMAT, OF_WHOLE_TASKS = "orchestai.planner/1", "orchestai.router/1"
"""Say what the file is, a planner of heads or of whole tasks; numbers grow when older programs could not read it."""

_OF_THE_WEIGHTS = (
    "linker",
    "task_types",
    "max_subtasks",
    "overlapping_spans",
    "any_length",
    "max_fallbacks",
    "d_model",
    "num_layers",
    "num_heads",
)
"""Keys of `planner` that the weights were made for; a loaded planner keeps them, whatever the configuration says."""


def save_planner(path: Path | str, planner: PlannerModel | LanguagePlanner, config: Section, **facts: Any) -> None:
    """Write a planner with the configuration and the pool that it was trained for.

    The file of a `PlannerModel` loads with `torch.load(path, weights_only=True)`. A language model is a folder, whose
    name is that of the path without `.pth`.

    Args:
        facts: further keys of the file, of plain types and tensors (`epoch`, `val_loss`, ...).

    Raises:
        UserError: the file cannot be written.
    """
    if isinstance(planner, LanguagePlanner):
        save_language_planner(without_suffix(path), planner, config, **facts)
        return
    checkpoint = {
        "format": FORMAT,
        "model_state_dict": planner.state_dict(),
        "config": config.model_dump(mode="json"),
        "planner": planner.config.model_dump(mode="json"),
        "task_types": list(planner.config.task_types),
        "cards": [asdict(card) for card in planner.cards],
        "base": {"name": planner.config.base, "digest": planner.base},
        **{part: {"name": model.name, "fingerprint": model.fingerprint} for part, model in _frozen(planner).items()},
        "versions": artifacts.versions(),
        **facts,
    }
    digests.save_torch(path, checkpoint)


def save_router(path: Path | str, config: Section, **facts: Any) -> None:
    """Write the planner of whole tasks, of which `facts` hold the estimate, with its configuration and its pool.

    Raises:
        UserError: the file cannot be written.
    """
    whole = config.model_dump(mode="json")
    cards = [asdict(card) for card in worker_cards(WorkersConfig.model_validate(whole["workers"]))]
    planner = {"planner": whole["planner"], "task_types": whole["planner"]["task_types"], "cards": cards}
    about = {"format": OF_WHOLE_TASKS, "config": whole, "versions": artifacts.versions()}
    digests.save_torch(path, about | planner | facts)


def open_checkpoint(
    path: Path | str, settings: PlannerConfig, workers: WorkersConfig
) -> PlannerModel | LanguagePlanner | RoutingPlanner:
    """A planner of any kind to plan with, as `load_planner`; it does not learn further.

    Raises:
        UserError: as `load_planner`.
    """
    located = path if str(path) == BASE else locate(path)
    is_module = str(path) == BASE or Path(located).is_dir()
    checkpoint = {} if is_module else read_checkpoint(located)
    if is_module or checkpoint["format"] == FORMAT:
        planner = load_planner(path, settings, workers)
        if isinstance(planner, PlannerModel):
            planner.requires_grad_(False)
        return planner
    try:
        config, cards = checkpoint["config"], [WorkerCard(**card) for card in checkpoint["cards"]]
        rewards = RewardsConfig.of_saved(config["rewards"])
        weights = Phase2Config.of_saved(config["training"]["phase2_rl"])
        longest = 1 + saved_config(checkpoint["planner"]).max_fallbacks
    except (KeyError, TypeError, ValueError) as error:
        raise other_version(Path(located), error) from None
    if not settings.allow_new_pool:
        _check_pool(located, cards, worker_cards(workers))
    estimate = of_state(checkpoint.get(STATE_KEY), str(located))
    names = [name for name in workers.pool if name in estimate.workers]
    if not names:
        raise UserError(
            f"{located}: it knows none of the workers here; it has learned of {', '.join(estimate.workers)}"
        )
    form = reward_form(rewards, weights, reference_of(located))
    return RoutingPlanner(estimate, names, form, longest, workers.models_dir)


def load_planner(
    path: Path | str, settings: PlannerConfig, workers: WorkersConfig, *, value_head: bool = False
) -> PlannerModel | LanguagePlanner:
    """A planner for the configured workers, in evaluation mode.

    Args:
        path: as `locate` finds it; `base` is the base planner, or with `planner.kind=language` the configured language
            model before any training here.
        value_head: give a language model one; a `PlannerModel` has one in any case.

    Raises:
        UserError: there is no such checkpoint, it is damaged or no planner, or it was made for other task types,
            another encoder or (unless `planner.allow_new_pool` is set) another pool.
    """
    cards = worker_cards(workers)
    if str(path) == BASE and settings.kind == "language":
        return open_language_planner(settings, workers, value_head=value_head)
    if str(path) == BASE:
        return open_base(PlannerModel(settings, cards, cache_dir=workers.models_dir))
    path = locate(path)
    if path.is_dir():
        metadata = read_metadata(path)
        try:
            made_for, known = _made_for(metadata)
        except (KeyError, TypeError, ValueError) as error:
            raise other_version(path, error) from None
        _check(path, made_for, known, settings, cards)
        return load_language_planner(path, settings, workers, value_head=value_head)
    checkpoint = read_checkpoint(path)
    if checkpoint["format"] == OF_WHOLE_TASKS:
        raise UserError(
            f"{path}: a planner of whole tasks, which has no weights to train and splits no task; run and evaluate "
            "take it, or train one with planner.kind=heads"
        )
    try:
        made_for, known = _made_for(checkpoint)
        weights = checkpoint["model_state_dict"]
    except (KeyError, TypeError, ValueError) as error:
        raise other_version(path, error) from None
    _check(path, made_for, known, settings, cards)
    digests.check_finite(path, weights)
    base = checkpoint["base"]
    if base["digest"] and settings.base != NOTHING and digest_of(settings.base) != base["digest"]:
        raise UserError(
            f"{path}: began with the base planner {base['name']!r} ({base['digest']}), but planner.base is "
            f"{settings.base!r} ({digest_of(settings.base)}); name the former, or train again"
        )
    with torch.random.fork_rng(devices=[]):
        planner = PlannerModel(
            settings.model_copy(update={key: getattr(made_for, key) for key in _OF_THE_WEIGHTS}),
            cards,
            cache_dir=workers.models_dir,
        )
    for part, model in _frozen(planner).items():
        if model.fingerprint != checkpoint.get(part, {}).get("fingerprint", ""):
            raise UserError(
                f"{path}: trained on the {part.replace('_', ' ')} {model.name!r} with other weights than here; "
                "install those, or train again"
            )
    try:
        planner.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: its weights do not fit this program's planner ({reason}); train again") from None
    planner.base = base["digest"]
    return planner.eval()


def read_checkpoint(path: Path | str) -> dict[str, Any]:
    """All keys of a planner's checkpoint.

    Raises:
        UserError: there is no such file, it is damaged, or it is no planner checkpoint.
    """
    try:
        checkpoint = digests.load_torch(Path(path), "pass another checkpoint, or train again")
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint; train first, or name another") from None
    found = checkpoint.get("format") if isinstance(checkpoint, dict) else None
    if found not in (FORMAT, OF_WHOLE_TASKS):
        raise UserError(f"{path}: not a planner checkpoint of this program (format {found!r}, not {FORMAT!r})")
    return checkpoint


def read_facts(path: Path | str) -> Mapping[str, Any]:
    """What is kept beside the weights of any planner, and of a planner of heads these, too.

    Raises:
        UserError: it cannot be read.
    """
    path = locate(path)
    return read_metadata(path) if path.is_dir() else read_checkpoint(path)


def seen_by(path: Path | str) -> SeenTasks:
    """The tasks that a checkpoint has learned from and was selected on; none of `base`.

    Raises:
        UserError: it cannot be read.
    """
    if str(path) == BASE:
        return NOTHING_SEEN
    return SeenTasks.of_checkpoint(read_facts(path))


def reference_of(path: Path | str) -> Reference | None:
    """The reference of the reward that was measured for a planner; None of `base`, or where nothing was measured.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    if str(path) == BASE:
        return None
    found = read_facts(path).get("reward_reference")
    try:
        return None if found is None else Reference(**found)
    except TypeError as error:
        raise other_version(locate(path), error) from None


def estimate_state_of(path: Path | str) -> dict[str, Any] | None:
    """What a checkpoint keeps of its pool's estimate (`stored_estimate.of_state`); None of `base`, or without any.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    if str(path) == BASE:
        return None
    path = locate(path)
    return read_state(path / ESTIMATE) if path.is_dir() else read_checkpoint(path).get(STATE_KEY)


def _frozen(planner: PlannerModel) -> dict[str, TextEncoder | StepEncoder]:
    """What the planner reads with, and does not keep in its file."""
    return {"encoder": planner.encoder} | (
        {} if planner.linker is None else {"language_model": planner.linker.step_encoder}
    )


def _made_for(checkpoint: Mapping[str, Any]) -> tuple[PlannerConfig, list[WorkerCard]]:
    return saved_config(checkpoint["planner"]), [WorkerCard(**card) for card in checkpoint["cards"]]


def _check(
    path: Path,
    made_for: PlannerConfig,
    known: Sequence[WorkerCard],
    settings: PlannerConfig,
    cards: Sequence[WorkerCard],
) -> None:
    if made_for.task_types != settings.task_types:
        raise UserError(
            f"{path}: trained for planner.task_types {list(made_for.task_types)}, but the config has "
            f"{list(settings.task_types)}; set them back, or train again"
        )
    if not settings.allow_new_pool:
        _check_pool(path, known, cards)


def _check_pool(path: Path | str, known: Sequence[WorkerCard], cards: Sequence[WorkerCard]) -> None:
    before, now = {card.name: card for card in known}, {card.name: card for card in cards}
    differences = {
        "gone": sorted(before.keys() - now.keys()),
        "new": sorted(now.keys() - before.keys()),
        "changed": sorted(name for name in before.keys() & now.keys() if before[name] != now[name]),
    }
    said = "; ".join(f"{what}: {', '.join(names)}" for what, names in differences.items() if names)
    if said:
        raise UserError(
            f"{path}: trained for another pool ({said}); set planner.allow_new_pool=true to match the workers by their "
            "cards, or train again"
        )
