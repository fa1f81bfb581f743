"""Where planners lie on disk, found without reading them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestai.config.planner import BASE, PlannerConfig
from orchestai.errors import UserError
from orchestai.storage.artifacts import restore_folder

LAST = "phase2_last.pth"
"""The planner, or the folder of agents (without the suffix), of the latest checkpoint of phase 2 in a folder."""
FIRST = "phase1_best.pth"
"""The planner, or the folder of a language model (without the suffix), that phase 1 keeps."""
_BEST = "phase2_best.pth"
"""What a job of phase 2 hands on of its policies, without the last ones."""
METADATA = "orchestai.json"
"""The file that makes a folder a language planner."""


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
    """sha256 of a checkpoint's content (of `base`: of its name), as 16 hexadecimal digits.

    Raises:
        UserError: it cannot be read.
    """
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
