"""The page as one file: template, styles, scripts and data, under a policy that runs nothing else."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from orchestai.report.chunks import ChunkWriter, packed
from orchestai.report.safe_text import script_json, showable, visible
from orchestai.storage import artifacts

STYLES = ("page.css", "views.css")
SCRIPTS = (
    "dom.js",
    "store.js",
    "charts.js",
    "dag.js",
    "listing.js",
    "summary.js",
    "training.js",
    "tradeoff.js",
    "executions.js",
    "groups.js",
    "checks.js",
    "app.js",
)
"""In this order they make one script; each defines functions that later ones call."""


def write_page(output: Path, data: Mapping[str, Any], index: Mapping[str, Any], chunks: ChunkWriter) -> None:
    """Write the page, and its chunks beside it where they are too large for it.

    Raises:
        UserError: it cannot be written.
    """
    beside = output.with_name(f"{output.stem}.chunks")
    if chunks.beside:
        chunks.write_beside(beside)
    elif beside.is_dir() and all(file.suffix == ".js" for file in beside.iterdir()):
        shutil.rmtree(beside)
    html = render(
        dict(data) | {"chunks": {"digests": chunks.digests, "folder": beside.name if chunks.beside else None}},
        index,
        chunks.embedded,
    )
    artifacts.write_text(output, html)


def render(data: Mapping[str, Any], index: Mapping[str, Any], chunks: Any) -> str:
    """The page's text."""
    style, script = _joined(STYLES), f"(() => {{\n'use strict';\n{_joined(SCRIPTS)}\n}})();"
    loads = data["chunks"]["folder"] is not None
    return _template().render(
        title=visible(data["title"]),
        policy=policy(style, script, loads_scripts=loads, live=data["live"]),
        style=style,
        script=script,
        data=script_json(data),
        index=packed(showable(index)),
        chunks=chunks,
    )


def policy(style: str, script: str, *, loads_scripts: bool, live: bool) -> str:
    """Content security policy: only these styles and this script, and no connection to anywhere.

    Args:
        loads_scripts: whether chunks beside the page may be loaded as scripts, too.
        live: whether the page may ask its own server for changes.
    """
    sources = f"'{_hash(script)}'" + (" 'self' file:" if loads_scripts else "")
    connections = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; script-src {sources}; style-src '{_hash(style)}'; img-src data:; {connections}"
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("orchestai.report") / "page"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_joined(("page.html",)))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
