"""A folder belongs to the process that writes there: a second one would mix its checkpoints with the first's."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path

from orchestai.errors import UserError

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


logger = logging.getLogger(__name__)


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Hold `folder` against other processes, of which only the main one of a distributed launch takes it.

    The system frees it when the process ends, however it does.

    Args:
        name: of what is written there; others may hold the folder for something else.

    Raises:
        UserError: another process holds it (the message says which), or the lock cannot be written.
    """
    is_new = not folder.exists()
    path = folder / f".{name}.lock"
    file = _take(path) if os.environ.get("RANK", "0") == "0" else None
    try:
        yield
    finally:
        if file is not None:
            with suppress(PermissionError):  # Windows removes no file that is open; the lock counts, not its file
                path.unlink(missing_ok=True)
            file.close()
            if is_new:
                with suppress(OSError):  # something was written
                    folder.rmdir()


def _take(path: Path) -> FileIO | None:
    """The file that is locked; None where the file system knows no locks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:  # whoever holds it removes it at the end, so it may be another's by now
            file = open_shared(path)
            try:
                lock(file, wait=False)
                if _is_still(path, file):
                    file.truncate(0)
                    file.write(_own_name().encode())
                    return file
            except BlockingIOError:
                file.seek(0)
                holder = file.read(4096).decode(errors="replace").strip() or "it has not said who it is"
                file.close()
                raise UserError(
                    f"{path.parent}: another process writes here ({holder}); wait until it ends, or choose another "
                    "output folder (--output_dir, output_dir=)"
                ) from None
            except LocksUnsupportedError:
                file.close()
                logger.warning("%s: this system has no locks for files; start no second run in the folder", path.parent)
                return None
            file.close()
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror}; choose another folder") from error


def _is_still(path: Path, file: FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _own_name() -> str:
    since = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {os.getpid()} on {socket.gethostname()}, since {since}: {shlex.join(sys.argv)}\n"
