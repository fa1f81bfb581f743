"""What a process prints, kept within bounds."""

from __future__ import annotations

import io
import sys
from typing import Any

_MAX_BYTES = 1 << 18


class _Bounded(io.BytesIO):
    """Keeps the first _MAX_BYTES; says that it is the descriptor that it stands for."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def write(self, data: Any) -> int:
        super().write(bytes(data)[: max(0, _MAX_BYTES - self.tell())])
        return len(data)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """A program may close what it prints through; whoever reads it must not fail of that."""


class Captured:
    """Collects what is printed through streams of `sys` (`stdout`, `stderr`), which it takes the place of."""

    def __init__(self, *names: str) -> None:
        self._bytes = _Bounded(1 if "stdout" in names else 2)
        for name in names:
            stream = io.TextIOWrapper(self._bytes, encoding="utf-8", errors="surrogateescape", write_through=True)
            setattr(sys, name, stream)

    def take(self) -> str:
        """What was printed since the last call."""
        data = self._bytes.getvalue()
        if not data:
            return ""
        self._bytes.seek(0)
        self._bytes.truncate()
        return data.decode("utf-8", "surrogateescape")
