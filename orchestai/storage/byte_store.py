"""Bytes by key in a folder of bounded size: what is dear to compute, kept for processes that come later."""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path

from orchestai.storage import artifacts

_DIGEST_BYTES = 32
FOLDERS = 256
"""Among which a store's files are shared out, so that no folder is large, and making room in one is cheap."""
logger = logging.getLogger(__name__)


class ByteStore:
    """A folder of files, named after hashes of their keys; several processes may read and write it at the same time.

    Each of its 256 folders has an equal share of the bytes: where a new file would exceed it, those go that were not
    used for the longest time. A file that is not what was written for the key counts as absent.

    Args:
        max_bytes: of all files together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._share = max_bytes // FOLDERS

    def load(self, key: str) -> bytes | None:
        """What was saved for the key; None where nothing was, or where it is damaged or cannot be read."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("%s: cannot read: %s; what it holds is computed anew", path, error.strerror or error)
            return None
        content = data[_DIGEST_BYTES:]
        if data[:_DIGEST_BYTES] != _digest(key, content):
            logger.warning("%s: damaged; what it held is computed anew", path)
            return None
        with suppress(OSError):  # a folder of others may be read all the same
            os.utime(path)
        return content

    def save(self, key: str, content: bytes) -> None:
        """Keep it; nothing is kept that exceeds a folder's share.

        Raises:
            UserError: it cannot be written.
        """
        data = _digest(key, content) + content
        if len(data) > self._share:
            return
        path = self._path(key)
        artifacts.write_bytes(path, data)
        self._make_room(path.parent)

    def _make_room(self, folder: Path) -> None:
        """Remove the files of a folder that were not used for the longest time, down to its share."""
        files = []
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):  # still being written
                    continue
                with suppress(OSError):  # another process was faster
                    found = entry.stat()
                    files.append((found.st_mtime_ns, entry.path, found.st_size))
        excess = sum(size for *_, size in files) - self._share
        for _, path, size in sorted(files):
            if excess <= 0:
                break
            with suppress(OSError):
                os.unlink(path)
            excess -= size

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / name[:2] / name[2:]


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass") + b"\0" + content).digest()
