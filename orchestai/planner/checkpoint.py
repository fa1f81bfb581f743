"""Planners on disk. The frozen encoder stays out; its name and a fingerprint of its weights are kept instead."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from orchestai import artefacts
from orchestai.config import Config, PlannerConfig
from orchestai.errors import UserError
from orchestai.planner.model import PlannerModel
from orchestai.workers.base import WorkerCard

FORMAT = "orchestai.planner/1"
"""Says what the file is; the number grows when older programs could not read it."""

_OF_THE_WEIGHTS = (
    "encoder",
    "encoder_layer",
    "task_types",
    "max_subtasks",
    "max_fallbacks",
    "d_model",
    "num_layers",
    "num_heads",
)
"""Keys of `planner` that the weights were made for; a loaded planner keeps them, whatever the configuration says."""


def save_planner(path: Path | str, planner: PlannerModel, config: Config, **facts: Any) -> None:
    """Write a planner with the configuration and the pool that it was trained for.

    The file loads with `torch.load(path, weights_only=True)`.

    Args:
        facts: further keys of the file, of plain types and tensors (`epoch`, `val_loss`, ...).

    Raises:
        UserError: the file cannot be written.
    """
    checkpoint = {
        "format": FORMAT,
        "model_state_dict": planner.state_dict(),
        "config": config.model_dump(mode="json"),
        "planner": planner.config.model_dump(mode="json"),
        "task_types": list(planner.config.task_types),
        "cards": [asdict(card) for card in planner.cards],
        "encoder": {"name": planner.encoder.name, "fingerprint": planner.encoder.fingerprint},
        "versions": artefacts.versions(),
        **facts,
    }
    artefacts.save_torch(path, checkpoint)


def load_planner(path: Path | str, config: Config, cards: Sequence[WorkerCard]) -> PlannerModel:
    """A planner for the workers `cards`, in evaluation mode.

    Raises:
        UserError: there is no such file, it is no planner, or it was made for other task types, another encoder or
            (unless `planner.allow_new_pool` is set) another pool.
    """
    checkpoint = read_checkpoint(path)
    try:
        made_for = PlannerConfig(**checkpoint["planner"])
        known = [WorkerCard(**card) for card in checkpoint["cards"]]
        encoder = checkpoint["encoder"]
        weights = checkpoint["model_state_dict"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a planner checkpoint of another version ({error}); train again") from None
    _check_types(path, made_for, config.planner)
    if not config.planner.allow_new_pool:
        _check_pool(path, known, cards)
    planner = PlannerModel(
        config.planner.model_copy(update={key: getattr(made_for, key) for key in _OF_THE_WEIGHTS}), cards
    )
    if planner.encoder.fingerprint != encoder["fingerprint"]:
        raise UserError(
            f"{path}: trained on an encoder {encoder['name']!r} with other weights than the one installed here; "
            "install that one, or train again"
        )
    try:
        planner.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: its weights do not fit this program's planner ({reason}); train again") from None
    return planner.eval()


def read_checkpoint(path: Path | str) -> dict[str, Any]:
    """All keys of a planner's checkpoint.

    Raises:
        UserError: there is no such file, or it is no planner checkpoint.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint; train first, or pass --checkpoint FILE") from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise UserError(
            f"{path}: not readable as a checkpoint ({type(error).__name__}); pass another file, or train again"
        ) from None
    found = checkpoint.get("format") if isinstance(checkpoint, dict) else None
    if found != FORMAT:
        raise UserError(f"{path}: not a planner checkpoint of this program (format {found!r}, not {FORMAT!r})")
    return checkpoint


def _check_types(path: Path | str, made_for: PlannerConfig, wanted: PlannerConfig) -> None:
    if made_for.task_types != wanted.task_types:
        raise UserError(
            f"{path}: trained for planner.task_types {list(made_for.task_types)}, but the config has "
            f"{list(wanted.task_types)}; set them back, or train again"
        )


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
