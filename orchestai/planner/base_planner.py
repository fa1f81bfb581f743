"""The base planner: it understands instructions and knows no pool. One is shipped; `train-base` makes others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from orchestai.planner.base_files import CARD, SHAPES, WEIGHTS, check_base, digest_of, other_version_of, read_base
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import artifacts

_PARTS = ("reader.", "decoder.", "confidence.", "familiar_words.")


def begin_with_base(planner: PlannerModel) -> None:
    """Give a planner the steps and edges of `planner.base`, which stay as they are while its pool is learned.

    Raises:
        UserError: there is no such base planner, it is damaged, or it was made for other shapes or another encoder.
    """
    base = planner.config.base
    check_base(planner.config, planner.encoder.fingerprint)
    weights = read_base(base)
    wanted = {key for key in planner.state_dict() if key.startswith(_PARTS) and not key.endswith("_extra_state")}
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
        if key.startswith(_PARTS) and not key.endswith("_extra_state")
    }
    content = save({key: value.contiguous() for key, value in weights.items()})
    artifacts.write_bytes(folder / WEIGHTS, content)
    digest = hashlib.sha256(content).hexdigest()[:16]
    shapes = planner.config.model_dump(mode="json", include=set(SHAPES))
    facts = {"digest": digest, "encoder_fingerprint": planner.encoder.fingerprint, "planner": shapes}
    artifacts.write_json(folder / CARD, {**card, **facts})
    return digest
