"""A PostgreSQL of one's own: a cluster in a temporary folder, run by a user that is not root, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_USERS = ("postgres", "nobody")
_START_S = 60.0


def why_absent() -> str | None:
    """Why no cluster can be started here; None where one can."""
    if _bin() is None:
        return "PostgreSQL (initdb, postgres) is not installed"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL refuses to run as root, and there is no user to run it as"
    return None


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a fresh cluster's database, with `{}` for the database's name (`postgres` is there)."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    tools = _bin()
    assert tools is not None
    as_user = _as_user(folder)
    try:
        subprocess.run(
            [tools / "initdb", "-D", folder / "data", "-U", "orchestai", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            capture_output=True,
            **as_user,
        )
        server = subprocess.Popen(
            [tools / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what other tests send to their group is not for it
            **as_user,
        )
        try:
            _wait(tools, folder, server)
            yield f"postgresql+psycopg://orchestai@/{{}}?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # end, whoever is connected
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGQUIT)
                server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(tools: Path, folder: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_S
    while subprocess.run([tools / "pg_isready", "-q", "-h", folder]).returncode:
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the cluster did not start")
        time.sleep(0.1)


def _bin() -> Path | None:
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


def _user() -> str | None:
    for name in _USERS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def _as_user(folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    name = _user()
    assert name is not None
    account = pwd.getpwnam(name)
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": folder}
