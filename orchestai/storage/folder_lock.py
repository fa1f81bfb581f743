"""A folder belongs to the process that writes there: a second one would mix its checkpoints with the first's."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from orchestai.errors import UserError

logger = logging.getLogger(__name__)
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


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
    descriptor = _take(folder / f".{name}.lock") if os.environ.get("RANK", "0") == "0" else None
    try:
        yield
    finally:
        if descriptor is not None:
            (folder / f".{name}.lock").unlink(missing_ok=True)
            os.close(descriptor)
            if is_new:
                with suppress(OSError):  # something was written
                    folder.rmdir()


def _take(path: Path) -> int | None:
    """A descriptor that holds the lock; None where the file system knows no locks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:  # whoever holds it removes it at the end, so it may be another's by now
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, _own_name().encode(), 0)
                    return descriptor
            except BlockingIOError:
                holder = os.pread(descriptor, 4096, 0).decode(errors="replace").strip() or "it has not said who it is"
                os.close(descriptor)
                raise UserError(
                    f"{path.parent}: another process writes here ({holder}); wait until it ends, or choose another "
                    "output folder (--output_dir, output_dir=)"
                ) from None
            os.close(descriptor)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            logger.warning("%s: this file system has no locks; start no second run in the folder", path.parent)
            return None
        raise UserError(f"{path}: cannot write: {error.strerror}; choose another folder") from error


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _own_name() -> str:
    since = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {os.getpid()} on {socket.gethostname()}, since {since}: {shlex.join(sys.argv)}\n"
