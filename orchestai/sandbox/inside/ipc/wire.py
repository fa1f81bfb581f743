"""How processes of the sandbox talk: lines of JSON for orders and verdicts, frames of bytes for calls."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

_MAX_FRAME = 256 << 20
_PIPE_BYTES = 1 << 20
_HEADER = struct.Struct("!cQ")
_MAX_EVENT = 1 << 10
_write, _getpid, _fstat, _exit, _encode = os.write, os.getpid, os.fstat, os._exit, json.JSONEncoder().encode
"""Bound before a program could put others in their place."""


class ChannelClosedError(Exception):
    """The process at the other end is gone."""


def send_line(channel: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Send a message, and with it copies of the descriptors `files`."""
    data = json.dumps(message).encode() + b"\n"
    if files:
        data = data[socket.send_fds(channel, [data], files) :]
    if data:
        channel.sendall(data)


class LineReader:
    """Reads lines of JSON, and the descriptors sent with them, from a stream socket."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self._buffer = b""
        self._files: list[int] = []

    def read(self) -> tuple[dict[str, Any], list[int]]:
        """The next message and its descriptors. Raises ChannelClosedError at the end of the stream."""
        while b"\n" not in self._buffer:
            try:
                data, files, _, _ = socket.recv_fds(self.channel, 1 << 16, 4)
            except OSError as error:
                raise ChannelClosedError(str(error)) from None
            for file in files:
                os.set_inheritable(file, False)
            self._files += files
            if not data:
                raise ChannelClosedError("end of stream")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        files, self._files = self._files, []
        return json.loads(line), files


def send_frame(channel: socket.socket, kind: bytes, payload: bytes) -> None:
    """Send `payload` under a one-byte kind; at once where it is small, so that the other end wakes once."""
    header = _HEADER.pack(kind, len(payload))
    for data in (header + payload,) if len(payload) < _PIPE_BYTES else (header, payload):
        channel.sendall(data)


def receive_frame(channel: socket.socket) -> tuple[bytes, bytes]:
    """Raises ChannelClosedError when the other end is gone or claims a frame of more than _MAX_FRAME bytes."""
    kind, size = _HEADER.unpack(_receive(channel, _HEADER.size))
    if size > _MAX_FRAME:
        raise ChannelClosedError(f"a frame of {size} bytes")
    return kind, _receive(channel, size)


def _receive(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:  # a process that was stopped for a while gets less at a time
        try:
            chunk = channel.recv(size - len(data), socket.MSG_WAITALL)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not chunk:
            raise ChannelClosedError("end of stream")
        data += chunk
    return bytes(data)


def read_whole(descriptor: int) -> bytes:
    """The content of a file from its beginning, wherever its offset is."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def open_verdict_pipe() -> tuple[int, int]:
    """A pipe that takes a program's events even while nobody reads it; its ends, to read and to write."""
    import fcntl  # the sandbox's parent imports this module, too, on systems without it

    read, write = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(PermissionError):  # the user's pipes hold too much already
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return read, write


class VerdictWriter:
    """Writes events, each as one line that carries the nonce; a line without it is ignored by the reader.

    Whatever else there is to say goes into the file `report`, which only the sandbox's parent reads: the processes for
    the next program are forked from the reader of the events, and its memory must not tell them what a test expected.
    """

    def __init__(self, descriptor: int, nonce: str, report: int) -> None:
        self._descriptor = descriptor
        self._nonce = nonce
        self._report = report
        self._place = os.getpid(), os.fstat(descriptor).st_ino

    def send(self, event: str, **facts: Any) -> None:
        self._write(self._descriptor, {"nonce": self._nonce, "event": event, **facts})

    def unloadable(self, status: str, reason: str) -> None:
        self._note(reason=reason)
        self.send("unloadable", status=status)

    def end(self, test: int, outcome: str, message: str, **facts: Any) -> None:
        self._note(test=test, message=message, **facts)
        self.send("end", test=test, outcome=outcome)

    def _note(self, **facts: Any) -> None:
        with suppress(OSError):  # the file is full: nothing is lost but a message
            self._write(self._report, facts)

    def _write(self, descriptor: int, facts: dict[str, Any]) -> None:
        if (_getpid(), _fstat(self._descriptor).st_ino) != self._place:
            _exit(70)  # a fork of the program's goes on with the tests, or the pipe is another
        data = b"\n" + _encode(facts).encode() + b"\n"
        while data:
            data = data[_write(descriptor, data) :]


class VerdictReader:
    """Collects events from a pipe; drops what is no event or lacks the nonce, and stops when there are far too many.

    Args:
        tests: how many can have events.
    """

    def __init__(self, descriptor: int, nonce: str, tests: int) -> None:
        self.descriptor = descriptor
        self._nonce = nonce
        self._left = (tests + 2) * 2 * _MAX_EVENT
        self._buffer = b""
        os.set_blocking(descriptor, False)

    def read(self) -> list[dict[str, Any]]:
        """The events that have arrived; never blocks."""
        with suppress(BlockingIOError):
            while self._left > 0 and (data := os.read(self.descriptor, 1 << 16)):
                self._left -= len(data)
                self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        events = []
        for line in lines:
            with suppress(ValueError, RecursionError):
                event = json.loads(line) if 0 < len(line) <= _MAX_EVENT else None
                if isinstance(event, dict) and event.get("nonce") == self._nonce:
                    events.append(event)
        return events


class Suite(NamedTuple):
    """Tests, as the sandbox's parent sends them: marshalled, in this order.

    Attributes:
        source: what they were compiled from, for tracebacks.
        code: the compiled module; that of open tests reports to `Watch` (see `orchestai.sandbox.static.watched`).
        names: `Class.method` of each test.
        modules: what they import, anywhere.
        meant: names that they use and do not define, with the module, and perhaps its member, that these mean whatever
            the program makes of them.
        sets: attributes that they set.
        imports: names that they import at their top, which open programs find in their module as well.
    """

    source: str
    code: Any
    names: tuple[str, ...]
    modules: tuple[str, ...]
    meant: tuple[tuple[str, tuple[str, str]], ...]
    sets: tuple[str, ...]
    imports: tuple[str, ...]
