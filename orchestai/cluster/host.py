"""What Ray starts on a node: it says what is installed there, and only then makes what is to run.

Ray sends this module's code itself rather than its name, and it imports nothing of this package, so a node with another
version of the package, or without it, can run it too.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Host:
    """An actor that holds another object, and makes it when it is told to.

    Args:
        what: the class of that object and its one argument, pickled, since a node may be unable to read them.
    """

    def __init__(self, what: bytes) -> None:
        self._what = what
        self._held: Any = None

    async def installed(self) -> tuple[str, str]:
        """This process in words, and what it has of OrchestAI (`version_of`)."""
        return process_name(), version_of("orchestai")

    async def open(self) -> Any:
        """Make the object; its `facts`."""
        cls, setup = pickle.loads(self._what)
        self._held = cls(setup)
        return await self._held.facts()

    async def call(self, method: str, *args: Any) -> Any:
        """What a method of the object returns or raises."""
        return await getattr(self._held, method)(*args)

    async def close(self) -> None:
        """Close the object, if there is one."""
        if self._held is not None:
            await self._held.close()


def process_name() -> str:
    """This process in words: its machine and its number."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def version_of(package: str) -> str:
    """The version that is installed; empty where none is.

    Whether it was built for a GPU (torch 2.13.0+cu130) does not count. Of this package its source counts too, since
    many a checkout has one number.
    """
    try:
        number = version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""
    return f"{number} (source {_source_of(package)})" if package == "orchestai" else number


def _source_of(package: str) -> str:
    """A short hash of a package's source, tables and grammars, which is not imported for it."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0])
    digest = hashlib.sha256()
    for file in sorted(one for kind in ("py", "yaml", "lark") for one in root.rglob(f"*.{kind}")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:8]
