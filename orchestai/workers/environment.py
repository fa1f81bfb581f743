"""Values that a configuration takes from the environment, so that no secret is written into it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from orchestai.errors import UserError

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def fill(texts: Mapping[str, str], where: str) -> dict[str, str]:
    """The texts with every `$NAME` in them filled from the environment.

    Raises:
        UserError: one is not set.
    """
    return {key: _filled(text, f"{where}.{key}") for key, text in texts.items()}


def secrets_of(texts: Mapping[str, str]) -> list[str]:
    """The values of all variables that the texts name, to be kept out of messages."""
    names = {found[1] or found[2] for text in texts.values() for found in _VARIABLE.finditer(text)}
    return [value for name in names if (value := os.environ.get(name))]


def _filled(text: str, where: str) -> str:
    return _VARIABLE.sub(lambda found: _value(found[1] or found[2], where), text)


def _value(name: str, where: str) -> str:
    if not (value := os.environ.get(name)):
        raise UserError(f"{where}: the variable {name} is not set; export {name}=...")
    return value
