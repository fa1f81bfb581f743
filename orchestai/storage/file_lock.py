"""Locks on open files, which the system frees when the file is closed or the process ends, however it does."""

from __future__ import annotations

import errno
import os
import sys
import time
from io import FileIO
from pathlib import Path

_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_FAR = 1 << 40
"""Offset of the byte that is locked on Windows, where what is locked cannot be read."""
_PAUSE_S = 0.05


class LocksUnsupportedError(OSError):
    """The system or the file system has no locks."""


def open_shared(path: Path) -> FileIO:
    """Open a file, which is created if need be, to read it and to append to it; every write goes out at once."""
    return open(path, "a+b", buffering=0)


def lock(file: FileIO, *, wait: bool) -> None:
    """Hold a file against all others who lock it.

    Raises:
        BlockingIOError: another holds it, and it is not to `wait`.
        LocksUnsupportedError: there are no locks here.
        OSError: it cannot be locked for another reason.
    """
    try:
        if sys.platform == "win32":
            _lock_on_windows(file, wait)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except ImportError as error:
        raise LocksUnsupportedError(errno.ENOSYS, str(error)) from None
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise LocksUnsupportedError(error.errno, error.strerror) from None
        raise


def _lock_on_windows(file: FileIO, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            os.lseek(file.fileno(), _FAR, os.SEEK_SET)
            try:
                return msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError as error:  # what it says where another holds the byte
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, str(error)) from None
            time.sleep(_PAUSE_S)
