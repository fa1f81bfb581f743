"""T, the process of a slot that runs the tests: kept for the next program where it is as good as new.

Self-contained tests (see `orchestai.sandbox.static.self_contained`) change nothing that outlasts them, and look at
nothing that those before them could have changed. So one process runs the tests of many such programs, one after the
other. All other tests get a process that has run none, and it ends with them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ..ipc.wire import ChannelClosedError, LineReader, send_line
from ..jail.limits import Jail
from . import process_main


class TestProcess:
    """A slot's T: forked and confined before there are tests for it.

    Attributes:
        pid: of the process; None while there is none.
        is_new: it has run no tests.
        busy: it runs some, and has neither said that it is done with them nor closed its end.
        waits: it can be given others.
        peak_bytes: after `hear`, the most memory that it has held beyond what it was forked with.
    """

    def __init__(self, jail: Jail) -> None:
        self.pid: int | None = None
        self.is_new = True
        self.busy = False
        self.waits = False
        self.peak_bytes = 0
        self._jail = jail
        self._orders: socket.socket | None = None

    @property
    def sockets(self) -> int:
        """How many sockets it takes to talk to it."""
        return 0 if self.pid is None else 2

    def fileno(self) -> int:
        """Becomes readable when it is done, or ends."""
        assert self._orders is not None
        return self._orders.fileno()

    def be_ready(self) -> int:
        """See that there is a process; its id.

        Raises:
            OSError: there are no resources for another process.
        """
        self.peak_bytes = 0
        if self.pid is None:
            self._orders, theirs = socket.socketpair()
            with theirs:
                self.pid = self._jail.fork(partial(process_main.tests, theirs), (theirs.fileno(),), trusted=True)
            self.waits = True
        return self.pid

    def give(self, order: dict[str, Any], files: Sequence[int]) -> None:
        assert self._orders is not None
        self.busy, self.is_new, self.waits = True, False, False
        send_line(self._orders, order, files)

    def hear(self) -> None:
        """Take in that it is done, or that it ends."""
        assert self._orders is not None
        self.busy = False
        with suppress(ChannelClosedError):
            self.peak_bytes = LineReader(self._orders).read()[0]["peak_bytes"]
            self.waits = True

    def end(self) -> None:
        """Raises RuntimeError if it cannot be ended."""
        if self.pid is not None:
            self._jail.end([self.pid])
        self.forget()

    def forget(self) -> None:
        """It has ended."""
        if self._orders is not None:
            self._orders.close()
        self.pid = self._orders = None
        self.busy, self.is_new, self.waits = False, True, False
