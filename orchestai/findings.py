"""What a check of a set-up finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One part of the set-up.

    Attributes:
        needed: whether nothing works without it.
        remedy: what to do where it is missing.
    """

    part: str
    there: bool
    needed: bool
    remedy: str = ""

    def __str__(self) -> str:
        mark = "ok     " if self.there else "missing" if self.needed else "absent "
        return f"{mark} {self.part}" + ("" if self.there or not self.remedy else f": {self.remedy}")
