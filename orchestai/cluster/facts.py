"""What an actor says of itself, by which it is compared with the other actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What any actor is.

    Attributes:
        name: of its process, in words.
    """

    name: str

    def difference(self, other: Any) -> str:
        """Why results there might differ from those of another actor with these facts; empty where they will not."""
        return ""
