"""What every part of the configuration is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from orchestai.config.deprecated_keys import under_new_keys
from orchestai.config.written import as_yaml


class Section(BaseModel):
    """A part of the configuration; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_yaml(self) -> str:
        """As resolved; `config.load` reads it back to an equal object."""
        return as_yaml(self.model_dump(mode="json"))


class RootSection(Section):
    """A whole configuration; keys that earlier versions had elsewhere are understood, with a warning."""

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_version(cls, given: Any) -> Any:
        return under_new_keys(given) if isinstance(given, dict) else given
