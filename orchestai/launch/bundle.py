"""The source that a job needs, as one archive: equal files make an equal archive, whenever it is made."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

from orchestai.errors import UserError

_LEFT_OUT = frozenset({"tests", "docs", "benchmarks", "checkpoints", "execution_logs", "runs", "__pycache__"})
"""Folders that no training reads; what begins with a dot is left out, too."""
ENTRY = "sagemaker_training/scripts/sm_mt_grpo_train.sh"
"""What the container starts."""


def source_files(folder: Path) -> list[str]:
    """Files of a checkout, relative to it: those that git tracks, else all, without what no training reads.

    Raises:
        UserError: it is no checkout of OrchestAI.
    """
    if not (folder / ENTRY).is_file():
        raise UserError(f"--source {folder}: no {ENTRY} there; name a checkout of OrchestAI")
    tracked = subprocess.run(["git", "-C", str(folder), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if tracked.returncode == 0:
        names = [name for name in tracked.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    kept = (name for name in names if not any(_is_left_out(part) for part in Path(name).parts))
    return sorted(name for name in kept if (folder / name).is_file())


def pack(folder: Path, names: list[str]) -> bytes:
    """A .tar.gz of these files, with their permissions but without times and owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in sorted(names):
            about = archive.gettarinfo(folder / name, name)
            about.mtime, about.uid, about.gid, about.uname, about.gname = 0, 0, 0, "", ""
            with (folder / name).open("rb") as file:
                archive.addfile(about, file)
    return packed.getvalue()


def _is_left_out(part: str) -> bool:
    return part in _LEFT_OUT or part.startswith(".")
