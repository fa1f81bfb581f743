"""The states of the global random number generators, which tests set and programs draw from.

They cross between processes with every call, so they are packed: hundreds of numbers are slow to decode one by one.
A program may send anything for them. numpy believes what it is told and reads where a wrong position points, so
only states of its usual generator, the Mersenne Twister (Matsumoto and Nishimura 1998), cross, each part checked.
"""

from __future__ import annotations

import importlib
import random
import sys
from array import array
from typing import Any

_NUMPY = "numpy.random"
_WORDS = 624
_TWISTER = "MT19937"


def get_states() -> dict[str, Any]:
    """The states, by the module that has them; of modules that have been imported."""
    version, words, spare = random.getstate()
    states: dict[str, Any] = {"random": (version, array("I", words).tobytes(), spare)}
    if _NUMPY in sys.modules:
        state = sys.modules[_NUMPY].get_state(legacy=True)
        if type(state) is tuple:
            states[_NUMPY] = (state[0], state[1].tobytes(), *state[2:])
    return states


def set_states(states: dict[str, Any]) -> None:
    """Undo `get_states`.

    Raises:
        Exception: these are no states.
    """
    version, packed, spare = states["random"]
    words = array("I", packed)
    if not (type(version) is int and len(words) == _WORDS + 1 and words[-1] <= _WORDS and _is_spare(spare)):
        raise ValueError("no state of the standard library's generator")
    random.setstate((version, tuple(words), spare))
    if _NUMPY in states:
        name, packed, position, has_spare, spare = states[_NUMPY]
        words = array("I", packed)
        if not (name == _TWISTER and len(words) == _WORDS and type(position) is int and 0 <= position <= _WORDS):
            raise ValueError("no state of numpy's generator")
        if not (type(has_spare) is int and has_spare in (0, 1) and type(spare) is float):
            raise ValueError("no spare number of numpy's generator")
        importlib.import_module(_NUMPY).set_state((name, words, position, has_spare, spare))


def _is_spare(value: Any) -> bool:
    return value is None or type(value) is float
