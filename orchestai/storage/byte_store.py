"""Bytes by key in a folder of bounded size: what is dear to compute, kept for processes that come later."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from functools import cached_property
from pathlib import Path

import diskcache

from orchestai.errors import UserError

logger = logging.getLogger(__name__)


class ByteStore:
    """A cache on the disk, from which goes what was not used for the longest time; several processes may share it.

    Args:
        max_bytes: of all together, about.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def load(self, key: str) -> bytes | None:
        """What was saved for the key; None where nothing was, or where it is damaged or cannot be read."""
        name = _hash(key)
        try:
            found = self._cache.get(name, b"", retry=True)
        except (OSError, sqlite3.Error) as error:
            logger.warning("%s: cannot read: %s; what it holds is computed anew", self._folder, error)
            return None
        digest, content = found[:32], found[32:]
        if found and digest != hashlib.sha256(content).digest():
            logger.warning("%s: damaged; what it held is computed anew", self._folder)
            return None
        return content if found else None

    def save(self, key: str, content: bytes) -> None:
        """Keep it.

        Raises:
            UserError: it cannot be written.
        """
        try:
            self._cache.set(_hash(key), hashlib.sha256(content).digest() + content, retry=True)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{self._folder}: cannot write: {error}; free space, or choose another folder") from error

    @cached_property
    def _cache(self) -> diskcache.Cache:
        policy = "least-recently-used"
        return diskcache.Cache(str(self._folder), size_limit=self._max_bytes, eviction_policy=policy)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
