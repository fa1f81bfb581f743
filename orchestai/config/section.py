"""What every part of the configuration is made of: sections, paths, and texts that may hold no secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

from omegaconf import OmegaConf
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError
from typing_extensions import Self

from orchestai.errors import UserError

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

    def escaped(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: escaped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [escaped(item) for item in value]
        return _INTERPOLATION.sub(r"\1\1\\\2", value) if isinstance(value, str) else value

    return OmegaConf.to_yaml(OmegaConf.create(escaped(raw)))


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


_SECRET = re.compile(r"authorization|cookie|(^|[-_])(api|access)?[-_]?(key|token|secret|password)$", re.I)
SECRET = "secret"
"""Type of the errors whose input holds a secret."""
_INTERPOLATED = re.compile(r"(?<!\\)(?:\\\\)*\$\{\s*oc\.env\s*:\s*([^,}\s]+)")


def refuse_secrets(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, of which none may hold a secret itself."""
    for name, value in headers.items():
        if _SECRET.search(name) and "$" not in value:
            raise ValueError(f"{name} holds a secret; put it into a variable, and write $NAME in its place here")
    return headers


def refuse_secret_url(url: str | None) -> str | None:
    """The URL, which may hold no password or key: it is also named in messages and logs."""
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
"""`$NAME` or `${NAME}` in a header."""


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
