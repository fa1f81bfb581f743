"""What the tests' process says of its tests besides their outcomes, for the parent alone."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from orchestai.sandbox.inside.judge.loading import MAX_MESSAGE
from orchestai.sandbox.inside.judge.testing import MAX_OUTPUT

_MAX_BYTES = 1 << 15
"""Of a test: each of its characters may take twelve."""
_Facts = dict[str, Any]


def add_report(verdict: _Facts, descriptor: int) -> _Facts:
    """A slot's `verdict` with what the file says; in `shared` isolation the program may have written that."""
    tests = verdict.get("tests", [])
    reason, facts = _read(descriptor, len(tests))
    if verdict["status"] not in ("ok", "infra_error"):
        verdict = verdict | {"reason": verdict["reason"] or reason}
    told = [_told(test, facts.get(number, {}), verdict["reason"]) for number, test in enumerate(tests)]
    return verdict | ({"tests": told} if tests else {})


def _told(test: _Facts, facts: _Facts, reason: str) -> _Facts:
    if "message" not in test:
        return test | facts
    return test if test["message"] else test | {"message": reason}


def _read(descriptor: int, tests: int) -> tuple[str, dict[int, _Facts]]:
    reason = ""
    found: dict[int, _Facts] = {}
    size = min(os.fstat(descriptor).st_size, (tests + 2) * _MAX_BYTES)
    for line in os.pread(descriptor, size, 0).split(b"\n"):
        try:
            facts = json.loads(line) if 0 < len(line) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict):
            reason = reason or _text(facts, "reason", MAX_MESSAGE)
            if type(facts.get("test")) is int:
                found[facts["test"]] = {
                    "message": _text(facts, "message", MAX_MESSAGE),
                    "output": _text(facts, "output", MAX_OUTPUT),
                    **{name: _figure(facts, name) for name in ("wall_s", "cpu_s", "peak_mb")},
                }
    return reason, found


def _text(facts: _Facts, name: str, longest: int) -> str:
    value = facts.get(name)
    return value[:longest] if isinstance(value, str) else ""


def _figure(facts: _Facts, name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf and value < 1e15 else 0.0
