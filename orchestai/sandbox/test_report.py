"""What the tests' process says of its tests besides their outcomes, for the parent alone."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

from orchestai.sandbox.inside.ipc.exceptions import MAX_MESSAGE
from orchestai.sandbox.inside.judge.testing import MAX_OUTPUT

_MAX_BYTES = 1 << 15
"""Of a test: each of its characters may take twelve."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
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
    return printable(value[:longest]) if isinstance(value, str) else ""


def printable(text: str) -> str:
    """`text` without what a terminal obeys: control characters but tabs and line ends appear as `\\x1b`."""
    return _CONTROL.sub(lambda match: rf"\x{ord(match[0]):02x}", text)


def _figure(facts: _Facts, name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf and value < 1e15 else 0.0
