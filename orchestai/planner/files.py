"""Files of planners: where checkpoints lie, found without reading them, and the base planner's weights and card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestai.config.planner import BASE, NOTHING, PlannerConfig
from orchestai.errors import UserError
from orchestai.storage.artifacts import restore_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAST = "phase2_last.pth"
"""The planner, or the folder of agents (without the suffix), of the latest checkpoint of phase 2 in a folder."""
FIRST = "phase1_best.pth"
"""The planner, or the folder of a language model (without the suffix), that phase 1 keeps."""
_BEST = "phase2_best.pth"
"""What a job of phase 2 hands on of its policies, without the last ones."""
METADATA = "orchestai.json"
"""The file that makes a folder a language planner."""
STATE_KEY = "worker_estimate"
"""Of a checkpoint: what is kept of its pool's estimate."""


def locate(path: Path | str) -> Path:
    """The checkpoint itself, the last one in a folder of a run, or the folder of that name without `.pth`.

    So the names that commands take by default stand for both kinds of planner. Of a folder that phase 2 has not
    written to it is what phase 1 keeps.
    """
    path = last_of(path)
    if path.is_dir() and not (path / METADATA).exists():
        inside = (path / FIRST, without_suffix(path / FIRST))
        path = next((found for found in inside if found.exists()), path)
    folder = without_suffix(path)
    if not path.exists():
        restore_folder(folder)
    return folder if not path.exists() and (folder / METADATA).exists() else path


def is_checkpoint(path: Path | str) -> bool:
    """Whether `load_planner` finds something of this name."""
    return str(path) == BASE or locate(path).exists()


def estimate_path(training_file: Path | str) -> Path:
    """`training_data.json` -> `training_data.estimate.pt`."""
    return Path(training_file).with_suffix(".estimate.pt")


def without_suffix(path: Path | str) -> Path:
    """`phase1_best.pth` -> `phase1_best`, the name of a folder."""
    path = Path(path)
    return path.with_suffix("") if path.suffix == ".pth" else path


def last_of(path: Path | str) -> Path:
    """The last policies in a folder of a run, such as `logs/checkpoint_5000`; any other path as it is.

    Where only the best were kept, as a job's results are, it is those.
    """
    inside = (Path(path) / name for kept in (LAST, _BEST) for name in (kept, without_suffix(kept)))
    return next((found for found in inside if found.exists()), Path(path))


def fingerprint_of(path: Path | str) -> str:
    """sha256 of a checkpoint's content (of `base`: of its name), as 16 hexadecimal digits."""
    digest = hashlib.sha256()
    if str(path) == BASE:
        digest.update(BASE.encode())
        return digest.hexdigest()[:16]
    path = locate(path)
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    try:
        for file in files:
            with file.open("rb") as opened:
                while part := opened.read(1 << 20):
                    digest.update(part)
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror or error}") from None
    return digest.hexdigest()[:16]


def saved_config(planner: Mapping[str, Any]) -> PlannerConfig:
    """The `planner` section that a checkpoint was made for, without keys that are constants by now."""
    return PlannerConfig.model_validate(planner, extra="ignore")


SHIPPED = "shipped"
WEIGHTS, CARD = "base.safetensors", "base.json"
SHIPPED_FOLDER = Path(__file__).parent / "shipped"
SHAPES = ("max_subtasks", "overlapping_spans", "d_model", "num_layers", "num_heads")
"""Keys of `planner` that the base's weights were made for."""


def base_folder(base: str) -> Path:
    """Where a base planner lies that `planner.base` names."""
    return SHIPPED_FOLDER if base == SHIPPED else Path(base)


def read_card(base: str) -> dict[str, Any]:
    """What a base planner learned from, how it does, and the shapes of its weights."""
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
    """See that the base planner fits a planner of this configuration, with an encoder of this fingerprint."""
    base, card = config.base, read_card(config.base)
    for key in SHAPES:
        if getattr(config, key) != card["planner"][key]:
            raise UserError(
                f"planner.{key}: {getattr(config, key)}, but the base planner {base!r} has {card['planner'][key]}; "
                f"leave it out, or set planner.base={NOTHING} to learn language from nothing"
            )
    if encoder_fingerprint != card["encoder_fingerprint"]:
        raise UserError(f"planner.base: {base}: made for an encoder with other weights than here")


def read_base(base: str) -> dict[str, NDArray[Any]]:
    """The weights of a base planner, by their names in `PlannerModel`."""
    from safetensors import SafetensorError

    from orchestai.planner.slots.text_encoder import read_weights

    path = base_folder(base) / WEIGHTS
    try:
        return read_weights(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"planner.base: {path}: not readable ({error}); install again, or train one") from None


def other_version_of(base: str) -> UserError:
    """That a base planner's weights are not those of this program's planner."""
    return UserError(f"planner.base: {base_folder(base) / WEIGHTS}: of another version of this program; train it again")


def digest_of(base: str) -> str:
    """sha256 of a base planner's weights, as 16 hexadecimal digits; empty for `none`."""
    if base == NOTHING:
        return ""
    path = base_folder(base) / WEIGHTS
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UserError(f"planner.base: {path}: cannot read: {error.strerror or error}") from None
