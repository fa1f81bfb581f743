"""Keys of earlier versions, and what to write instead."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

_log = logging.getLogger(__name__)

_SPLITS = "all commands divide the tasks alike now; write it as tasks.{}"

MOVED: Final[Mapping[str, str]] = {
    **{
        f"training.phase1_supervised.{key}": _SPLITS.format(key)
        for key in ("val_fraction", "test_fraction", "test_fold")
    },
    "rewards.gate_costs": (
        "in the relative form no failure is ever worth more than a success; remove it, and training.phase2_rl.beta, "
        "gamma_latency and shaped_reward with it"
    ),
    "agents.outcome_coef": (
        "write agents.turn_advantage_coef, which weighs a turn's own advantage instead of the outcome's: what "
        "outcome_coef=2 was is turn_advantage_coef=0.5"
    ),
}
"""Dotted key: one clause that says why, or what takes its place."""

RENAMED: Final[Mapping[str, str]] = {
    "execution.unscorable_limit": "tasks.unscorable_limit",
    "agents.unscorable_limit": "tasks.unscorable_limit",
}
"""SECTION.KEY of an earlier version: what it is now, in a section of the same depth."""


def under_new_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with what it says by an earlier version's keys under the present ones, which win over them."""
    raw = dict(given)
    for old, new in RENAMED.items():
        (section, key), (home, name) = old.split("."), new.split(".")
        if isinstance(raw.get(section), Mapping) and key in raw[section]:
            _log.warning("%s is now %s; the old key is understood in this version", old, new)
            values = dict(raw[section])
            value = values.pop(key)
            raw[section] = values
            if not values:
                del raw[section]
            if isinstance(there := raw.get(home, {}), Mapping):
                raw[home] = {name: value, **there}
    return raw
