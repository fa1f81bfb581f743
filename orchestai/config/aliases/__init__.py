"""Short words and other programs' keys, as overrides of ours: one way to read them, for all tables of aliases."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from orchestai.errors import UserError
from orchestai.plugins import did_you_mean

Meaning: TypeAlias = Callable[[Any], list[str]]
"""The overrides that a value stands for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Aliases:
    """What other names than the configuration's own stand for.

    Attributes:
        keys: by alias, the dotted key that means the same, or what its value means.
        unused: aliases that change nothing here, with a reason or none; they are named in a warning.
    """

    keys: Mapping[str, str | Meaning]
    unused: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.keys or key in self.unused

    def overrides(self, values: Mapping[str, Any], source: str) -> list[str]:
        """Overrides such as `a.b.c=value` for values by alias.

        Args:
            source: of the values, for the warning.
        """
        words: list[str] = []
        unused = []
        for key, value in values.items():
            if key in self.keys:
                meaning = self.keys[key]
                words += [override(meaning, value)] if isinstance(meaning, str) else meaning(value)
            elif key in self.unused:
                unused.append(f"{key} ({self.unused[key]})" if self.unused[key] else key)
            else:
                hint = did_you_mean(key, self.keys) or "; write a dotted key of the configuration"
                raise UserError(f"{key}: unknown key (value {value!r}){hint}")
        if unused:
            _log.warning("of %s, these change nothing here: %s", source, ", ".join(unused))
        return words

    def replace(self, words: Sequence[str]) -> list[str]:
        """The words, with overrides in the place of those that are aliases."""
        replaced = []
        for word in words:
            key, value = split(word)
            replaced += self.overrides({key: yaml.safe_load(value)}, "the words") if key in self else [word]
        return replaced


def split(word: str) -> tuple[str, str]:
    """Key and value of `key=value`; Hydra's `@_global_` after a key means nothing."""
    key, equals, value = word.partition("=")
    if not equals:
        raise UserError(f"{word!r}: write it as section.key=value")
    return key.removesuffix("@_global_"), value


def override(key: str, value: Any) -> str:
    """`key=value`, so that the value is read as it is."""
    return f"{key}={json.dumps(value)}"


def whole_number(key: str, value: str) -> int:
    """Raise a `UserError` where the value is not a whole number from 1."""
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"{key}: {value!r} is not a whole number from 1")
    return int(value)


def processes() -> int:
    """How many `accelerate launch` started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def as_processes(count: int) -> Iterator[None]:
    """Words mean meanwhile what they would mean in so many processes."""
    before = os.environ.get("WORLD_SIZE")
    os.environ["WORLD_SIZE"] = str(count)
    try:
        yield
    finally:
        os.environ.pop("WORLD_SIZE")
        if before is not None:
            os.environ["WORLD_SIZE"] = before


def flags_as_words(arguments: Sequence[str], flags: Collection[str]) -> list[str]:
    """`--learning_rate 1e-6` as `learning_rate=1e-6`, but for `flags` that the command itself has."""
    words: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name.replace("-", "_") in flags:
            words.append(argument)
        else:
            words.append(f"{name}={value if equals else next(left, '')}")
    return words


__all__ = ["Aliases", "Meaning", "as_processes", "flags_as_words", "override", "processes", "split", "whole_number"]
