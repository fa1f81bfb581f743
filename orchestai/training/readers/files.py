"""Opening the files that readers read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from orchestai.errors import UserError


def files(path: Path, *patterns: str) -> list[Path]:
    """The file itself, or the files of a folder that fit one of the patterns, by name.

    Raises:
        UserError: there is none.
    """
    found = sorted({file for pattern in patterns for file in path.glob(pattern)}) if path.is_dir() else [path]
    if not found or not found[0].exists():
        raise UserError(f"{path}: no such file, or a folder without any of {', '.join(patterns)}")
    return found


def load(file: Path) -> Any:
    """The JSON value of a file, or the list of those of its lines (.jsonl); gzip (.gz) is understood.

    Raises:
        UserError: it cannot be read.
    """
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = content.decode("utf-8")
        if file.name.removesuffix(".gz").endswith(".jsonl"):
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        return json.loads(text)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None
