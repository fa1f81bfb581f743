"""Paths that a configuration names, which may lie beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import AfterValidator, ValidationInfo

P = TypeVar("P", str, Path)


def _found(path: P, info: ValidationInfo) -> P:
    """`path` itself where the working directory has it, else as the configuration's own folder has it, if it does."""
    folder: Path | None = (info.context or {}).get("folder")
    if folder is None or Path(path).exists() or not (beside := folder / path).exists():
        return path
    return type(path)(beside)


FoundPath: TypeAlias = Annotated[Path, AfterValidator(_found)]
FoundName: TypeAlias = Annotated[str, AfterValidator(_found)]
"""A path, or a name of something that is no file."""
