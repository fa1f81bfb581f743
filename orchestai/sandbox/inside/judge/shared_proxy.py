"""The candidate as the tests see it in `shared` isolation: it has their world, and may call what they hand to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

from ..ipc.exports import Exports
from ..ipc.mocks import hush
from ..ipc.stand_ins import stand_ins
from ..ipc.world import TestsWorld
from .guard import Guard
from .loading import MODULE
from .proxy import Candidate, receive, send


class SharedCandidate(Candidate):
    """See `Candidate`."""

    def __init__(self, channel: socket.socket, name: str, guard: Guard, **facts: bool) -> None:
        self._exports = Exports(MODULE)
        self._world = TestsWorld(MODULE)
        super().__init__(channel, name, guard, **facts)
        self._one_at_a_time = threading.RLock()  # what the program calls here may ask it something

    def share_imports(self, imports: Sequence[tuple[str, str, str]]) -> None:
        """Have the program find in its module what the tests import in theirs; see `Suite`."""
        if imports:
            self.ask("imports", list(imports))

    def module_name(self, name: str) -> Any:
        """What tests find in their module that neither they nor `names` have put there (`patch("__test__.helper")`)."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.names([name])[name]
        except KeyError:
            raise AttributeError(name) from None

    def _entry_point(self, name: str, is_async: bool) -> Any:
        return super()._entry_point(name, is_async) if is_async else self._remote(0, "callable")

    def _stand_in(self) -> Any:
        return stand_ins(self.ask, self._exports.answered)

    def _pickled(self, request: dict[str, Any]) -> bytes:
        return self._exports.pickled(request | {"world": self._world.facts()})

    def _receive(self) -> bytes:
        while True:
            kind, payload = receive(self._channel)
            if kind != b"k":
                return payload
            send(self._channel, b"r", self._exports.answer(payload, self._remote))

    def _taken(self, answer: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        self._world.take_in(answer.get("world"))
        try:
            value = super()._taken(answer, arguments)
        except Exception:
            if type(number := answer.get("raised")) is int:
                raise self._exports.raised(number) from None
            raise
        finally:
            failure, self._exports.failure = self._exports.failure, None
            if failure is not None:
                raise failure
        if "same" in answer:
            hush(value)
        return value
