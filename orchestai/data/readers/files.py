"""Opening the files that readers read."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from orchestai.errors import UserError


def files(path: Path, *patterns: str) -> list[Path]:
    """The file itself, or the files of a folder that fit one of the patterns, by name, in any case of letters; with
    gzip (.gz), too, but for Parquet.

    What this program writes beside its training files (.meta.json, .run.json) is left out of a folder.

    Raises:
        UserError: there is none.
    """
    found = [path]
    if path.is_dir():
        fits = {
            file
            for pattern in patterns
            for end in (("",) if pattern.endswith(".parquet") else ("", ".gz"))
            for file in path.glob("".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in pattern + end))
        }
        found = sorted(file for file in fits if not file.name.endswith((".meta.json", ".run.json")))
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
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        raise UserError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None


def records(file: Path, source: str, *keys: str) -> list[dict[str, Any]]:
    """The records of a file, which are mappings with these keys at least.

    Raises:
        UserError: it cannot be read, or is not of this source.
    """
    found = load(file)
    if not isinstance(found, list) or not all(isinstance(one, dict) and set(keys) <= one.keys() for one in found):
        raise UserError(f"{file}: not a file of {source}, whose records have {', '.join(keys)}")
    return found
