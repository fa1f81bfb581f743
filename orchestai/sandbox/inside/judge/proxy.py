"""The candidate as sealed tests see it: a function that asks its process."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..ipc import exceptions
from ..ipc.arrays import may_change, mirror
from ..ipc.values import NamesClassError, NotPlainError, decode, decode_primitive, encode_arguments
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame
from .candidate import KEPT, LoadError

CANDIDATE_GONE = 71
LOAD_FAULTS = ("syntax_error", "import_error", "no_entry_point", "memory")


class Candidate:
    """Asks the candidate's process for what the tests want of it, once it is loaded. Raises LoadError.

    Args:
        may_stop: tests expect that it raises StopIteration. To others that is a RuntimeError, as what a generator lets
            out is (PEP 479): it would end the tests' loops (`zip(map(task_func, given), expected)`).

    Attributes:
        raised: whether an answer was an exception.
        is_plain: whether it answers at once, and all answers could be decoded, and named no class.
        entry_point: the function that tests call.
    """

    def __init__(self, channel: socket.socket, name: str, *, may_stop: bool) -> None:
        self._channel = channel
        self._may_stop = may_stop
        self._one_at_a_time = threading.Lock()
        self._known: dict[int, Any] = {}
        """Data that crossed and may change, by number; the candidate's process has copies."""
        self._next = 0
        self.raised = False
        kind, payload = self._receive()
        if kind == b"f":
            status, reason = json.loads(payload)
            raise LoadError(status if status in LOAD_FAULTS else "import_error", str(reason))
        self.is_plain = payload != b"1"
        self.entry_point = self._entry_point(name, is_async=payload == b"1")

    def ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call of the entry point, or the exception that it raised."""
        with self._one_at_a_time:
            known = {place: self._number(value) for place, value in (*enumerate(args), *kwargs.items())}
            known = {place: number for place, number in known.items() if number is not None}
            number, self._next = self._next, self._next + 1
            request = encode_arguments({"args": args, "kwargs": kwargs, "known": known, "next": number})
            try:
                send_frame(self._channel, b"c", request)
            except (BrokenPipeError, ConnectionResetError):
                os._exit(CANDIDATE_GONE)
            payload = self._receive()[1]
        try:
            answer = decode_primitive(payload)
        except (NamesClassError, NotPlainError):
            self.is_plain = False
            answer = decode(payload)
        if type(answer) is not dict:
            raise NotPlainError("unreadable answer")
        self.raised = self.raised or "error" in answer
        try:
            return self._taken(answer, number)
        except StopIteration as error:
            if self._may_stop:
                raise
            raise RuntimeError("the program raised StopIteration") from error

    def _receive(self) -> tuple[bytes, bytes]:
        """The candidate's next frame. Ends this process when the candidate is gone: no test can catch that."""
        try:
            return receive_frame(self._channel)
        except ChannelClosedError:
            os._exit(CANDIDATE_GONE)

    def _number(self, value: Any) -> int | None:
        if not may_change(value):
            return None
        for number, known in self._known.items():
            if known is value:
                return number
        self._known[self._next] = value
        self._next += 1
        for number in [number for number in self._known if number <= self._next - 2 * KEPT]:
            del self._known[number]
        return self._next - 1

    def _taken(self, answer: dict[str, Any], number: int) -> Any:
        """The value in an answer, after its other effects have been repeated here."""
        for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
            if printed := answer.get(name):
                stream.write(str(printed))
        if "refused" in answer:
            raise NotPlainError(str(answer["refused"]))
        changed = answer.get("changed")
        for known, value in changed.items() if type(changed) is dict else ():
            if known in self._known:
                mirror(self._known[known], value)
        if "error" in answer:
            raise answer_error(answer["error"])
        if "same" in answer:
            return self._known[answer["same"]]
        if answer.get("keep") is True:
            self._known[number] = answer["value"]
        return answer["value"]

    def _entry_point(self, name: str, *, is_async: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.ask(args, kwargs)

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return self.ask(args, kwargs)

        function = call_async if is_async else call
        function.__name__ = function.__qualname__ = name
        return function


def answer_error(facts: Any) -> BaseException:
    """What an answer says was raised."""
    error = exceptions.put_together(facts)
    return error if error is not None else NotPlainError("the function raised something that is no exception")
