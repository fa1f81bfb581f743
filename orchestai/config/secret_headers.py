"""Headers of requests, which may hold secrets; a configuration names the variables that hold them instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(r"authorization|cookie|(^|[-_])(api|access)?[-_]?(key|token|secret|password)$", re.I)


def refuse_secrets(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, of which none may hold a secret itself: a configuration is saved with every run.

    Raises:
        ValueError: one does.
    """
    for name, value in headers.items():
        if _SECRET.search(name) and "$" not in value:
            raise ValueError(f"{name} holds a secret; put it into a variable, and write $NAME in its place here")
    return headers
