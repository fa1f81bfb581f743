"""The files that come with the program: the default configuration, presets, the recording, sample data."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_INSTALLED = _PACKAGE / "shipped"
"""Where a built package has them (setup.py copies them there); a checkout has them beside the package."""


def shipped(name: Path | str) -> Path:
    """The path of a file or folder, e.g. `config.yaml` or `data/agents`; it need not exist."""
    return (_INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent) / name


def here_or_shipped(name: Path | str) -> Path:
    """The same, unless the working directory has one of that name or none is shipped."""
    return Path(name) if Path(name).exists() or not shipped(name).exists() else shipped(name)
