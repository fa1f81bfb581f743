"""Configurations as YAML that loads as what was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

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
