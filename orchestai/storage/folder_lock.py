"""A folder belongs to the process that writes there: a second one would mix its checkpoints with the first's."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from orchestai.errors import UserError


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Hold `folder` against other processes, of which only the main one of a distributed launch takes it.

    The system frees it when the process ends, however it does.

    Args:
        name: of what is written there; others may hold the folder for something else.

    Raises:
        UserError: another process holds it (the message says which), or the lock cannot be written.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    is_new, path = not folder.exists(), folder / f".{name}.lock"
    lock = FileLock(path, blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        since = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        own = f"process {os.getpid()} on {socket.gethostname()}, since {since}: {shlex.join(sys.argv)}\n"
        path.write_text(own)
    except Timeout:
        holder = ""
        with suppress(OSError):  # Windows lets nobody read what is locked
            holder = path.read_text(errors="replace").strip()
        raise UserError(
            f"{folder}: another process writes here ({holder or 'it has not said who it is'}); wait until it ends, or "
            "choose another output folder (--output_dir, output_dir=)"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror}; choose another folder") from error
    try:
        yield
    finally:
        with suppress(PermissionError):  # Windows removes no file that is open; the lock counts, not its file
            path.unlink(missing_ok=True)
        lock.release()
        if is_new:
            with suppress(OSError):  # something was written
                folder.rmdir()
