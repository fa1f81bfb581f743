"""The states of the global random number generators, which tests set and programs draw from.

They cross between processes with every call, so they are packed: hundreds of numbers are slow to decode one by one.
"""

from __future__ import annotations

import importlib
import random
import sys
from array import array
from typing import Any

_NUMPY = "numpy.random"


def get_states() -> dict[str, Any]:
    """The states, by the module that has them; of modules that have been imported."""
    version, words, spare = random.getstate()
    states: dict[str, Any] = {"random": (version, array("I", words).tobytes(), spare)}
    if _NUMPY in sys.modules:
        state = sys.modules[_NUMPY].get_state(legacy=True)
        states[_NUMPY] = (state[0], state[1].tobytes(), *state[2:]) if type(state) is tuple else state
    return states


def set_states(states: dict[str, Any]) -> None:
    """Undo `get_states`.

    Raises:
        Exception: these are no states.
    """
    version, words, spare = states["random"]
    random.setstate((version, tuple(array("I", words)), spare))
    if _NUMPY in states:
        state = states[_NUMPY]
        unpacked = (state[0], array("I", state[1]), *state[2:]) if type(state) is tuple else state
        importlib.import_module(_NUMPY).set_state(unpacked)
