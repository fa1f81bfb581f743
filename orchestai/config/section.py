"""What every part of the configuration is made of."""

from __future__ import annotations

from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, strict=False)

    def to_yaml(self) -> str:
        """As resolved; `config.load` reads it back to an equal object."""
        return OmegaConf.to_yaml(OmegaConf.create(self.model_dump(mode="json")))
