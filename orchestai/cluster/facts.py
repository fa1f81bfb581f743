"""What an actor says of itself, by which it is compared with the process that asks it and with the other actors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What any actor is.

    Attributes:
        name: of its process, in words.
        versions: of the packages on which its results depend.
    """

    name: str
    versions: Mapping[str, str]

    def difference_here(self) -> str:
        """Why results there might differ from this process's; empty where they will not."""
        for package, there in self.versions.items():
            if there != (here := version_of(package)):
                return f"{self.name} has {package} {there}, this process has {here}: install the same version"
        return ""

    def difference(self, other: Any) -> str:
        """Why results there might differ from those of another actor with these versions; empty where they will not."""
        return ""


def version_of(package: str) -> str:
    """That which is installed; whether it was built for a GPU (torch 2.13.0+cu130) does not count."""
    return version(package).partition("+")[0]
