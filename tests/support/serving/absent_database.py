"""A database that goes away while a server uses it, and comes back."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from orchestai.serving.store.database import Writer


class Absence:
    """Whether writers find their database gone; set `now` to have it so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = False
        attempt = Writer._attempt

        def attempted(writer: Writer, together: list[Any]) -> Any:
            if self.now:
                raise OperationalError("UPDATE", {}, Exception("gone"))
            return attempt(writer, together)

        monkeypatch.setattr(Writer, "_attempt", attempted)
        monkeypatch.setattr("orchestai.serving.store.database._AGAIN_S", 0.1)
