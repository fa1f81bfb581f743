"""At which preference a task is attempted."""

from __future__ import annotations

import random

from orchestai.preference import Preference

_TIMED = 0.25
"""Share of the preferences in which time counts, too."""


def draw_preference(key: str, share: float) -> Preference | None:
    """The preference of all attempts at a task, or None for the configured reward.

    Args:
        key: says all that the draw depends on, so that it is the same in whichever process and after a resume.
        share: how often there is one.
    """
    if not share:
        return None
    draws = random.Random(f"preference/{key}")
    drawn, prefer, timed, time_share = (draws.random() for _ in range(4))
    if drawn >= share:
        return None
    return Preference(prefer, time_share if timed < _TIMED else 0.0)
