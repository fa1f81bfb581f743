"""The states of the global random number generators, which tests set and programs draw from."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

_NUMPY = "numpy.random"


def get_states() -> dict[str, Any]:
    """The states, by the module that has them; of modules that have been imported."""
    states: dict[str, Any] = {"random": random.getstate()}
    if _NUMPY in sys.modules:
        states[_NUMPY] = sys.modules[_NUMPY].get_state(legacy=True)
    return states


def set_states(states: dict[str, Any]) -> None:
    """Undo `get_states`.

    Raises:
        Exception: these are no states.
    """
    random.setstate(states["random"])
    if _NUMPY in states:
        importlib.import_module(_NUMPY).set_state(states[_NUMPY])
