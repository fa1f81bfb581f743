"""Details that a page reads only when somebody looks at them: compressed chunks, in the page or beside it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from orchestai.report.safe_text import showable
from orchestai.storage import artifacts

MOST_EMBEDDED: Final = 20 * 10**6
"""Bytes of compressed details that a page holds itself; with more, all lie in a folder beside it."""
_CHUNK = 1_500_000
"""Characters of JSON per chunk, before compression: some 150 executions."""
_SHORT = 40
_REFERENCE = "\0"
"""Begins a text that stands for another one of the chunk: its number follows."""


def packed(value: Any) -> str:
    """JSON of what is `showable`, compressed, in base64."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def with_shared_texts(items: list[Any]) -> dict[str, Any]:
    """The items with their longer texts in a list of their own, sorted, so that similar ones compress together."""
    texts: dict[str, None] = {}
    _replaced(items, lambda text: str(texts.setdefault(text)))
    ordered = sorted(texts)
    number = {text: place for place, text in enumerate(ordered)}
    return {"texts": ordered, "items": _replaced(items, lambda text: f"{_REFERENCE}{number[text]}")}


def _replaced(value: Any, replace: Callable[[str], str]) -> Any:
    """The value with something else for each longer text."""
    if isinstance(value, str):
        return replace(value) if len(value) > _SHORT or value.startswith(_REFERENCE) else value
    if isinstance(value, dict):
        return {key: _replaced(item, replace) for key, item in value.items()}
    return [_replaced(item, replace) for item in value] if isinstance(value, list) else value


class ChunkWriter:
    """Collects details and hands out where each lies; few of them are in memory at a time.

    Use as a context manager; what lay on the disk in between is gone afterwards, but for what `write_beside` wrote.

    Attributes:
        digests: of each closed chunk, by which a page knows chunks that a later page put in their place.
    """

    def __init__(self, most_embedded: int = MOST_EMBEDDED) -> None:
        self._most_embedded = most_embedded
        self._open: list[Any] = []
        self._open_size = 0
        self._chunks: list[str] = []
        self.digests: list[str] = []
        self._size = 0
        self._spilled: Path | None = None
        self._stack = ExitStack()

    def __enter__(self) -> ChunkWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    def add(self, detail: Any) -> tuple[int, int]:
        """Number of the chunk and place in it."""
        shown = showable(detail)
        size = len(json.dumps(shown))
        if self._open and self._open_size + size > _CHUNK:
            self.close()
        self._open.append(shown)
        self._open_size += size
        return len(self.digests), len(self._open) - 1

    def close(self) -> None:
        """End the chunk that is being filled."""
        if not self._open:
            return
        chunk = packed(with_shared_texts(self._open))
        self._open, self._open_size = [], 0
        self._size += len(chunk)
        if self._spilled is None and self._size > self._most_embedded:
            self._spilled = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="orchestai-report-")))
            for number, earlier in enumerate(self._chunks):
                self._spill(number, earlier)
            self._chunks = []
        if self._spilled is None:
            self._chunks.append(chunk)
        else:
            self._spill(len(self.digests), chunk)
        self.digests.append(_digest(chunk))

    @property
    def beside(self) -> bool:
        """Whether the chunks are too large for the page."""
        return self._spilled is not None

    @property
    def embedded(self) -> Sequence[str]:
        """The chunks, where they fit into the page."""
        return self._chunks

    def write_beside(self, folder: Path) -> None:
        """Put the chunks into a folder as scripts, since a page that was opened from a disk may read nothing else."""
        assert self._spilled is not None
        with artifacts.replacing_folder(folder) as made:
            for file in sorted(self._spilled.iterdir()):
                shutil.copyfile(file, made / file.name)

    def _spill(self, number: int, chunk: str) -> None:
        assert self._spilled is not None
        (self._spilled / f"{number}.js").write_text(f'orchestaiChunk({number},"{_digest(chunk)}","{chunk}")')


def _digest(chunk: str) -> str:
    return hashlib.sha256(chunk.encode()).hexdigest()[:12]
