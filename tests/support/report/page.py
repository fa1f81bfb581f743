"""What a page holds, read without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any


def scripts(page: Path) -> dict[str, str]:
    """The text of each script element that has an id, as a browser delimits it."""
    text = page.read_text()
    return dict(re.findall(r'<script[^>]* id="([^"]+)">(.*?)</script>', text, re.DOTALL))


def data(page: Path) -> dict[str, Any]:
    return _strictly(scripts(page)["page-data"])


def index(page: Path) -> dict[str, Any]:
    return unpacked(scripts(page)["page-index"])


def executions(page: Path) -> list[dict[str, Any]]:
    held = index(page)
    rows = _with_texts(held["executions"]["items"], held["executions"]["texts"])
    return [dict(zip(held["columns"], row, strict=True)) for row in rows]


def detail(page: Path, row: dict[str, Any]) -> Any:
    """From the page, or from the folder beside it."""
    folder = data(page)["chunks"]["folder"]
    if folder is None:
        packed = scripts(page)[f"chunk-{row['chunk']}"]
    else:
        packed = (page.parent / folder / f"{row['chunk']}.js").read_text().split('"')[3]
    chunk = unpacked(packed)
    return _with_texts(chunk["items"][row["place"]], chunk["texts"])


def _with_texts(value: Any, texts: list[str]) -> Any:
    if isinstance(value, str):
        return texts[int(value[1:])] if value.startswith("\0") else value
    if isinstance(value, dict):
        return {key: _with_texts(item, texts) for key, item in value.items()}
    return [_with_texts(item, texts) for item in value] if isinstance(value, list) else value


def unpacked(packed: str) -> Any:
    return _strictly(gzip.decompress(base64.b64decode(packed)))


def _strictly(text: str | bytes) -> Any:
    """As a browser reads JSON: NaN and infinities are errors."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} in the page")

    return json.loads(text, parse_constant=refuse)
