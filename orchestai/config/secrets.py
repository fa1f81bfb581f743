"""What may hold secrets: headers, URLs, variables. A configuration is saved with every run, so it names variables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic_core import PydanticCustomError

from orchestai.errors import UserError

_SECRET = re.compile(r"authorization|cookie|(^|[-_])(api|access)?[-_]?(key|token|secret|password)$", re.I)
SECRET = "secret"
"""Type of the errors whose input holds a secret."""
_INTERPOLATED = re.compile(r"(?<!\\)(?:\\\\)*\$\{\s*oc\.env\s*:\s*([^,}\s]+)")


def refuse_secrets(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, of which none may hold a secret itself.

    Raises:
        ValueError: one does.
    """
    for name, value in headers.items():
        if _SECRET.search(name) and "$" not in value:
            raise ValueError(f"{name} holds a secret; put it into a variable, and write $NAME in its place here")
    return headers


def refuse_secret_url(url: str | None) -> str | None:
    """The URL, which may hold no password or key: it is also named in messages and logs.

    Raises:
        PydanticCustomError: it does, or it is none; of the type SECRET, whose input is not to be shown.
    """
    try:
        parts = urlsplit(url or "")
    except ValueError:
        raise PydanticCustomError(SECRET, "this is no URL") from None
    if "@" in parts.netloc:
        raise PydanticCustomError(SECRET, "the URL holds a password; send it as a header: Authorization: Basic $NAME")
    if any(_SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise PydanticCustomError(SECRET, "the URL holds a key; put it into a variable, and send that as a header")
    return url


def secret_variables(raw: Any) -> Iterator[str]:
    """Names of secrets' variables that a configuration would be filled from (`${oc.env:NAME}`), before it is."""
    if isinstance(raw, Mapping):
        raw = list(raw.values())
    if isinstance(raw, list):
        for value in raw:
            yield from secret_variables(value)
    elif isinstance(raw, str):
        yield from (name for name in _INTERPOLATED.findall(raw) if _SECRET.search(name))


_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def fill(texts: Mapping[str, str], where: str) -> dict[str, str]:
    """The texts with every `$NAME` in them filled from the environment."""
    for key, text in texts.items():
        for name in _names(text):
            if not os.environ.get(name):
                raise UserError(f"{where}.{key}: the variable {name} is not set; export {name}=...")
    return {key: _VARIABLE.sub(lambda found: os.environ[found[1] or found[2]], text) for key, text in texts.items()}


def secrets_of(texts: Mapping[str, str]) -> list[str]:
    """The values of all variables that the texts name, to be kept out of messages."""
    names = {name for text in texts.values() for name in _names(text)}
    return [value for name in names if (value := os.environ.get(name))]


def _names(text: str) -> list[str]:
    return [found[1] or found[2] for found in _VARIABLE.finditer(text)]
