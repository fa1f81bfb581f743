"""What a process on a node of a cluster keeps of the node, and what it gets of the machine that asks it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestai.errors import UserError


@dataclass(frozen=True)
class Facts:
    """What any actor is.

    Attributes:
        name: of its process, in words.
    """

    name: str

    def difference(self, other: Any) -> str:
        """Why results there might differ from those of another actor with these facts; empty where they will not."""
        return ""


_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
_KEPT_PREFIXES = (
    *("LANG", "LC_", "PYTHON", "RAY_", "OMP_", "MKL_", "CUDA_", "NVIDIA_", "XDG_", "SSL_CERT_"),
    *("HF_HOME", "HF_HUB_", "HF_DATASETS_", "TRANSFORMERS_"),
)
"""What a process needs to run, and where models are cached. Of these names none holds a key but Ray's own token
(RAY_AUTH_TOKEN), without which an actor could not speak to its cluster."""


def keep_environment(env: Mapping[str, str]) -> None:
    """Drop all environment variables of this process but `env` and what any process needs."""
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith(_KEPT_PREFIXES):
            del os.environ[name]
    os.environ.update(env)


def settle(env: Mapping[str, str], folder: Path) -> None:
    """Make this process an actor's: with no environment but `keep_environment`'s, in `folder` where the node has it."""
    keep_environment(env)
    if folder.is_dir():
        os.chdir(folder)


def given_environment(names: tuple[str, ...]) -> dict[str, str]:
    """The variables of `execution.ray.env` with their values here.

    Raises:
        UserError: one is not set.
    """
    if missing := [name for name in names if name not in os.environ]:
        raise UserError(f"execution.ray.env: {missing[0]} is not set here; export it, or take it out of the list")
    return {name: os.environ[name] for name in names}
