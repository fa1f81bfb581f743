"""Planners on disk: a folder for a language model, else a file, and the estimate of their pool.

The file leaves the frozen encoder and language model out; their names and fingerprints are kept instead."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from orchestai.config import BASE, Phase2Config, PlannerConfig, RewardsConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.reward import Reference, reward_form
from orchestai.planner.files import (
    CARD,
    SHAPES,
    STATE_KEY,
    WEIGHTS,
    check_base,
    digest_of,
    locate,
    other_version_of,
    read_base,
    saved_config,
    without_suffix,
)
from orchestai.planner.forecast import PoolForecaster, RoutingPlanner
from orchestai.planner.language.checkpoint import (
    ESTIMATE,
    load_language_planner,
    open_language_planner,
    other_version,
    read_metadata,
    save_language_planner,
)
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import artifacts, digests
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards

logger = logging.getLogger(__name__)
_PARTS = ("reader.", "decoder.", "confidence.")


def begin_with_base(planner: PlannerModel) -> None:
    """Give a planner the steps and edges of `planner.base`, which stay as they are while its pool is learned."""
    base = planner.config.base
    check_base(planner.config, planner.encoder.fingerprint)
    weights = read_base(base)
    wanted = {key for key in planner.state_dict() if key.startswith(_PARTS)}
    if weights.keys() != wanted:
        raise other_version_of(base)
    planner.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()}, strict=False)
    planner.base = digest_of(base)


def round_to_shipped(planner: PlannerModel) -> None:
    """Round the weights of steps and edges to what `save_base` keeps, so that confidence is fitted to what is used."""
    with torch.no_grad():
        for part in (planner.reader, planner.decoder):
            for parameter in part.parameters():
                parameter.copy_(parameter.bfloat16().float())


def save_base(folder: Path, planner: PlannerModel, card: Mapping[str, Any]) -> str:
    """Write the weights in bfloat16 and the card beside them; gives the digest."""
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


FORMAT, OF_WHOLE_TASKS = "orchestai.planner/1", "orchestai.router/1"
"""Say what the file is, a planner of heads or of whole tasks; numbers grow when older programs could not read it."""

NEAREST = "nearest"
"""Of a planner of whole tasks: whether it asks by the nearest tasks (`RoutingPlanner`)."""
_OF_THE_WEIGHTS = (
    "task_types",
    "max_subtasks",
    "overlapping_spans",
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
        "encoder": {"name": planner.encoder.name, "fingerprint": planner.encoder.fingerprint},
        "versions": artifacts.versions(),
        **facts,
    }
    digests.save_torch(path, checkpoint)


def save_router(path: Path | str, config: Section, **facts: Any) -> None:
    """Write the planner of whole tasks, of which `facts` hold the estimate, with its configuration and its pool."""
    whole = config.model_dump(mode="json")
    cards = [asdict(card) for card in worker_cards(WorkersConfig.model_validate(whole["workers"]))]
    planner = {"planner": whole["planner"], "task_types": whole["planner"]["task_types"], "cards": cards}
    about = {"format": OF_WHOLE_TASKS, "config": whole, "versions": artifacts.versions()}
    digests.save_torch(path, about | planner | facts)


def open_checkpoint(
    path: Path | str, settings: PlannerConfig, workers: WorkersConfig
) -> PlannerModel | LanguagePlanner | RoutingPlanner:
    """A planner of any kind to plan with, as `load_planner`; it does not learn further."""
    located = path if str(path) == BASE else locate(path)
    is_module = str(path) == BASE or Path(located).is_dir()
    checkpoint = {} if is_module else read_checkpoint(located)
    if is_module or checkpoint["format"] == FORMAT:
        planner = load_planner(path, settings, workers, checkpoint=checkpoint)
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
    estimate = estimate_from(checkpoint.get(STATE_KEY), str(located))
    names = [name for name in workers.pool if name in estimate.workers]
    if not names:
        raise UserError(
            f"{located}: it knows none of the workers here; it has learned of {', '.join(estimate.workers)}"
        )
    form = reward_form(rewards, weights, reference_of(located))
    nearest = bool(checkpoint.get(NEAREST))
    return RoutingPlanner(estimate, names, form, longest, workers.models_dir, nearest)


def load_planner(
    path: Path | str,
    settings: PlannerConfig,
    workers: WorkersConfig,
    *,
    value_head: bool = False,
    checkpoint: Mapping[str, Any] | None = None,
) -> PlannerModel | LanguagePlanner:
    """A planner for the configured workers, in evaluation mode.

    Args:
        path: as `locate` finds it; `base` is the base planner, or with `planner.kind=language` the configured language
            model before any training here.
        value_head: give a language model one; a `PlannerModel` has one in any case.
        checkpoint: what the file holds, where it was read before.
    """
    cards = worker_cards(workers)
    if str(path) == BASE and settings.kind == "language":
        return open_language_planner(settings, workers, value_head=value_head)
    if str(path) == BASE:
        base = PlannerModel(settings, cards)
        begin_with_base(base)
        base.by_cards = True  # it knows the cards alone of its pool
        return base.eval()
    path = locate(path)
    if path.is_dir():
        metadata = read_metadata(path)
        try:
            made_for, known = _made_for(metadata)
        except (KeyError, TypeError, ValueError) as error:
            raise other_version(path, error) from None
        _check(path, made_for, known, settings, cards)
        return load_language_planner(path, settings, workers, value_head=value_head)
    checkpoint = checkpoint or read_checkpoint(path)
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
            settings.model_copy(update={key: getattr(made_for, key) for key in _OF_THE_WEIGHTS}), cards
        )
    if planner.encoder.fingerprint != checkpoint["encoder"]["fingerprint"]:
        raise UserError(
            f"{path}: trained on the encoder {planner.encoder.name!r} with other weights than here; install those, or "
            "train again"
        )
    try:
        planner.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: its weights do not fit this program's planner ({reason}); train again") from None
    planner.base = base["digest"]
    return planner.eval()


def read_checkpoint(path: Path | str) -> dict[str, Any]:
    """All keys of a planner's checkpoint."""
    try:
        checkpoint = digests.load_torch(Path(path), "pass another checkpoint, or train again")
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint; train first, or name another") from None
    found = checkpoint.get("format") if isinstance(checkpoint, dict) else None
    if found not in (FORMAT, OF_WHOLE_TASKS):
        raise UserError(f"{path}: not a planner checkpoint of this program (format {found!r}, not {FORMAT!r})")
    return checkpoint


def read_facts(path: Path | str) -> Mapping[str, Any]:
    """What is kept beside the weights of any planner, and of a planner of heads these, too."""
    path = locate(path)
    return read_metadata(path) if path.is_dir() else read_checkpoint(path)


def seen_by(path: Path | str) -> SeenTasks:
    """The tasks that a checkpoint has learned from and was selected on; none of `base`."""
    if str(path) == BASE:
        return NOTHING_SEEN
    return SeenTasks.of_checkpoint(read_facts(path))


def reference_of(path: Path | str) -> Reference | None:
    """The reference of the reward that was measured for a planner; None of `base`, or where nothing was measured."""
    if str(path) == BASE:
        return None
    found = read_facts(path).get("reward_reference")
    try:
        return None if found is None else Reference(**found)
    except TypeError as error:
        raise other_version(locate(path), error) from None


def estimate_state_of(path: Path | str) -> dict[str, Any] | None:
    """What a checkpoint keeps of its pool's estimate (`estimate_from`); None of `base`, or without any."""
    if str(path) == BASE:
        return None
    path = locate(path)
    return read_estimate(path / ESTIMATE) if path.is_dir() else read_checkpoint(path).get(STATE_KEY)


def forecaster_of(path: Path | str) -> PoolForecaster | None:
    """What forecasts by a checkpoint's estimate; None where it has none, or one of another version (with a warning)."""
    state = estimate_state_of(path)
    try:
        return None if state is None else PoolForecaster(estimate_from(state, str(path)))
    except UserError as error:
        logger.warning("%s; until then nobody knows what its workers achieve", error)
        return None


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


_OF_ESTIMATES = "orchestai.worker_estimate/3"
_REMEDY = "run prepare again"
T = TypeVar("T")


def write_estimate(path: Path, estimate: PoolEstimate | None) -> None:
    """Write a file that `read_estimate` reads; without an estimate there is none, and a former one is removed."""
    if estimate is None:
        path.unlink(missing_ok=True)
    else:
        digests.save_torch(path, estimate_state(estimate))


def read_estimate(path: Path) -> dict[str, Any] | None:
    """What `write_estimate` wrote, as a checkpoint keeps it; None where there is no such file."""
    try:
        state = digests.load_torch(path, _REMEDY)
    except FileNotFoundError:
        return None
    estimate_from(state, str(path))
    assert isinstance(state, dict)
    return state


def estimate_state(estimate: PoolEstimate) -> dict[str, Any]:
    """Plain types and tensors."""
    return {"format": _OF_ESTIMATES, **_packed(estimate, {})}


def estimate_from(state: object, where: str) -> PoolEstimate:
    """The estimate that `estimate_state` was given."""
    found = state.get("format") if isinstance(state, Mapping) else None
    if not isinstance(state, Mapping) or found != _OF_ESTIMATES:
        raise UserError(
            f"{where}: its estimate of the workers is of format {found!r}, not {_OF_ESTIMATES!r}; {_REMEDY}"
        )
    try:
        return _unpacked(PoolEstimate, state)
    except (KeyError, TypeError) as error:
        raise UserError(f"{where}: its estimate of the workers is damaged ({error!r}); {_REMEDY}") from None


def _packed(value: Any, tensors: dict[int, Tensor]) -> Any:
    """Arrays that several parts share are one tensor, which is stored once."""
    if is_dataclass(value):
        return {field.name: _packed(getattr(value, field.name), tensors) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return tensors.setdefault(id(value), torch.from_numpy(np.ascontiguousarray(value)))
    if isinstance(value, tuple):
        return [_packed(part, tensors) for part in value]
    return value


def _unpacked(kind: type[T], state: Mapping[str, Any]) -> T:
    return kind(**{name: _value(hint, state[name]) for name, hint in get_type_hints(kind).items() if name in state})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, list):
        parts = get_args(hint) if get_origin(hint) is tuple else ()
        return tuple(_value(parts[0] if parts else None, part) for part in value)
    kind = next((one for one in (hint, *get_args(hint)) if isinstance(one, type) and is_dataclass(one)), None)
    return value if kind is None or value is None else _unpacked(kind, value)
