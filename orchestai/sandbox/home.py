"""The folder of a fork server on the host: its own, and gone with it, even where nobody could tidy up."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "orchestai-sandbox-"
_YOUNG_S = 60.0
"""A folder younger than this may not be locked yet."""


class Home:
    """A new folder in the temporary directory. What killed processes have left there is removed.

    Its owner holds a lock on it for as long as it lives.

    Raises:
        OSError: there is no room for it.
    """

    def __init__(self) -> None:
        import fcntl  # not on every system that imports this module

        _remove_orphans()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_orphans() -> None:
    import fcntl

    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                if time.time() - os.fstat(lock).st_mtime > _YOUNG_S:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(lock)
