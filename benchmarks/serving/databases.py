"""A database that nobody has used, of either kind that servers share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.serving import postgres

KINDS = ("sqlite", "postgresql")


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """Its address; PostgreSQL is a private cluster in a temporary folder, gone at the end.

    Raises:
        SystemExit: no cluster can be started here.
    """
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'served' / 'served.db'}"
        return
    reason = postgres.why_absent()
    if reason:
        raise SystemExit(reason)
    with postgres.cluster() as address:
        yield address.format("postgres")
