"""The fork server: preloads modules once, then keeps one slot per channel."""

from __future__ import annotations

import gc
import importlib
import os
import socket
from typing import Any, NoReturn

from .ipc.wire import send_line
from .jail import processes
from .jail.limits import Jail, die_with_parent, hide_memory
from .judge.process_main import rehearse
from .judge.slot import Slot
from .judge.watch import remember
from .warm_up import warm_up

_MAX_STARTS = 100
_REHEARSALS = 20
"""After as many runs the interpreter has fitted a candidate's code to its types: a fork would do that for itself."""
_OFTEN_IMPORTED = (
    *("bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "typing", "unittest"),
)


def main(settings: dict[str, Any]) -> int:
    """Run until every channel is closed.

    `settings`: `channels` (descriptors), `preload` (modules), `level`, `limits`, `home` (where programs get their
    folders), `first_uid` (user of the first slot's programs, where this process is root; the next slot has the next).
    """
    channels = [socket.socket(fileno=descriptor) for descriptor in settings["channels"]]
    try:
        for name in settings["preload"]:
            importlib.import_module(name)
    except Exception as error:
        for channel in channels:
            send_line(channel, {"failed": f"cannot preload {name}: {error}"})
        return 1
    for name in _OFTEN_IMPORTED:
        importlib.import_module(name)
    warm_up()
    for _ in range(_REHEARSALS):
        rehearse()
    remember()
    gc.collect()
    gc.freeze()
    hide_memory()  # last: it keeps this process from its own files in /proc, where it is not root
    slots = {_start_slot(channels, i, settings): i for i in range(len(channels))}
    starts = len(slots)
    while slots:
        pid, status = os.wait()
        index = slots.pop(pid, None)
        if index is not None and status != 0:
            if starts >= _MAX_STARTS * len(channels):
                return 1
            slots[_start_slot(channels, index, settings)] = index
            starts += 1
    return 0


def _start_slot(channels: list[socket.socket], index: int, settings: dict[str, Any]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    _slot(channels, index, settings, parent)


def _slot(channels: list[socket.socket], index: int, settings: dict[str, Any], parent: int) -> NoReturn:
    code = 1
    try:
        own = channels.pop(index)
        for channel in channels:
            channel.close()
        channel = own.dup()  # gets a number below the limit on descriptors, wherever the parent's began
        own.close()
        die_with_parent(parent)
        processes.become_reaper()
        try:
            slot = Slot(channel, _open_jail(settings, index, len(channels) + 1), settings["limits"])
        except OSError as error:
            send_line(channel, {"unable": f"no jail for programs: {error}"})
        else:
            slot.serve()
        code = 0
    finally:
        os._exit(code)


def _open_jail(settings: dict[str, Any], index: int, slots: int) -> Jail:
    home, limits = settings["home"], settings["limits"]
    if settings["level"] == "process":
        return Jail(home, limits)
    from .jail.namespaces import NamespaceJail

    uid = settings["first_uid"] + index if os.getuid() == 0 else None
    return NamespaceJail(home, limits, uid, slots)
