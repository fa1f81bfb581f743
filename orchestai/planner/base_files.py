"""The files of a base planner: its weights, and a card that says what they were learned from and for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError

from orchestai.config.planner import NOTHING, PlannerConfig
from orchestai.errors import UserError
from orchestai.planner.onnx_graph import read_weights

SHIPPED = "shipped"
WEIGHTS, CARD = "base.safetensors", "base.json"
SHIPPED_FOLDER = Path(__file__).parent / "shipped"
SHAPES = (
    "encoder",
    "encoder_layer",
    "max_subtasks",
    "overlapping_spans",
    "any_length",
    "d_model",
    "num_layers",
    "num_heads",
)
"""Keys of `planner` that the base's weights were made for."""


def base_folder(base: str) -> Path:
    """Where a base planner lies that `planner.base` names."""
    return SHIPPED_FOLDER if base == SHIPPED else Path(base)


def read_card(base: str) -> dict[str, Any]:
    """What a base planner learned from, how it does, and the shapes of its weights.

    Raises:
        UserError: there is no such base planner.
    """
    path = base_folder(base) / CARD
    try:
        card = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"planner.base: {base}: no base planner there ({path}: {error}); train one with `orchestai train-base`, or "
            f"set planner.base={NOTHING}"
        ) from None
    return dict(card)


def check_base(config: PlannerConfig, encoder_fingerprint: str) -> None:
    """See that the base planner fits a planner of this configuration, with an encoder of this fingerprint.

    Raises:
        UserError: there is no such base planner, or it was made for other shapes or another encoder.
    """
    base, card = config.base, read_card(config.base)
    for key in SHAPES:
        if getattr(config, key) != card["planner"][key]:
            raise UserError(
                f"planner.{key}: {getattr(config, key)}, but the base planner {base!r} has {card['planner'][key]}; "
                f"leave it out, or set planner.base={NOTHING} to learn language from nothing"
            )
    if encoder_fingerprint != card["encoder_fingerprint"]:
        raise UserError(
            f"planner.base: {base}: made for the encoder {card['planner']['encoder']!r} with other weights than here"
        )


def read_base(base: str) -> dict[str, NDArray[Any]]:
    """The weights of a base planner, by their names in `PlannerModel`.

    Raises:
        UserError: they cannot be read.
    """
    path = base_folder(base) / WEIGHTS
    try:
        return read_weights(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"planner.base: {path}: not readable ({error}); install again, or train one") from None


def other_version_of(base: str) -> UserError:
    """That a base planner's weights are not those of this program's planner."""
    return UserError(f"planner.base: {base_folder(base) / WEIGHTS}: of another version of this program; train it again")


def digest_of(base: str) -> str:
    """sha256 of a base planner's weights, as 16 hexadecimal digits; empty for `none`.

    Raises:
        UserError: they cannot be read.
    """
    if base == NOTHING:
        return ""
    path = base_folder(base) / WEIGHTS
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UserError(f"planner.base: {path}: cannot read: {error.strerror or error}") from None
