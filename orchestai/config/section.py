"""What every part of the configuration is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from omegaconf import OmegaConf
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo
from typing_extensions import Self

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


_INTERPOLATION = re.compile(r"(\\*)(\$\{)")


def as_yaml(raw: Mapping[str, Any]) -> str:
    """The mapping as YAML; `${` in a text is no interpolation, so that a text of others reads nothing from here."""
    return OmegaConf.to_yaml(OmegaConf.create(_escaped(raw)))


def _escaped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return _INTERPOLATION.sub(r"\1\1\\\2", value) if isinstance(value, str) else value


class Section(BaseModel):
    """A part of the configuration; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of_saved(cls, raw: Mapping[str, Any]) -> Self:
        """What was saved with weights; what it says beyond the keys of today decided nothing of them."""
        return cls.model_validate(raw, extra="ignore")

    def to_yaml(self) -> str:
        """As resolved; `config.load` reads it back to an equal object."""
        return as_yaml(self.model_dump(mode="json"))
