"""A commit of a git repository as files in memory, and patches applied to them. The repository is never written to.

Two kinds of patch are understood. A *unified diff* is applied by `git apply` in a scratch folder. *Search and replace
blocks* (`edit_blocks`) name a file, the exact lines to find and those to put there.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from orchestai.agents.repositories.edit_blocks import find_blocks
from orchestai.errors import UserError

Files: TypeAlias = Mapping[str, bytes]
"""Content by path, relative to the repository's root, with forward slashes."""

_DIFF_HEAD = re.compile(r"^(?:diff --git |--- \S)", re.MULTILINE)
_TOUCHED = re.compile(r"^(?:\+\+\+ (?:b/)?|--- (?:a/)?|rename (?:from|to) )([^\t\n]+)", re.MULTILINE)
_NEXT_FILE = re.compile(
    r"^([ +\-\\][^\n]*\n)\n*(?=diff --git |--- [^\n]+\n\+\+\+ [^\n]+\n@@ )",
    re.MULTILINE,
)
"""The end of a hunk, with blank lines that are none of it, before another file's."""
_TIMEOUT_S = 60.0


class PatchError(Exception):
    """A patch does not apply; the message says why, for whoever wrote it."""


@lru_cache(maxsize=64)
def read_commit(repository: Path, commit: str) -> Files:
    """The files of a commit of a repository, or of a bundle of one; links and submodules are left out.

    Raises:
        UserError: there is no such repository or commit.
    """
    if repository.is_file():
        with tempfile.TemporaryDirectory() as scratch:
            done = _git("clone", "--quiet", "--bare", str(repository.resolve()), ".", cwd=Path(scratch))
            if done.returncode:
                raise UserError(f"{repository}: not a git bundle: {_last_line(done.stderr)}")
            return _archive(Path(scratch), commit, repository)
    return _archive(repository, commit, repository)


def _archive(folder: Path, commit: str, repository: Path) -> Files:
    done = _git("archive", "--format=tar", commit, cwd=folder)
    if done.returncode:
        raise UserError(f"{repository}: commit {commit!r} cannot be read: {_last_line(done.stderr)}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
    return {name: file.read() for name, file in members.items() if file is not None}


def apply_patch(files: Files, patch: str) -> Files:
    """The files after a patch of either kind.

    Raises:
        PatchError: it is no patch, does not fit the files, or reaches out of the repository.
    """
    if blocks := list(find_blocks(patch)):
        changed = dict(files)
        for block in blocks:
            _replace(changed, block.path, block.old, block.new)
        return changed
    head = _DIFF_HEAD.search(patch)
    if head is None:
        raise PatchError("there is neither a unified diff nor a SEARCH/REPLACE block")
    return _apply_diff(files, patch[head.start() :].partition("\n```")[0])


def touched_paths(diff: str) -> set[str]:
    """The files that a unified diff changes, makes, removes or renames."""
    return {path for path in _TOUCHED.findall(diff) if path != "/dev/null"}


def _replace(files: dict[str, bytes], path: str, old: str, new: str) -> None:
    path = path.removeprefix("./")
    if not _is_inside(path):
        raise PatchError(f"{path!r} is not a path inside the repository")
    if path not in files:
        if old.strip():
            raise PatchError(f"there is no file {path!r}")
        files[path] = new.encode(errors="replace")
        return
    text = files[path].decode(errors="replace")
    count = text.count(old) if old.strip() else 0
    if count != 1:
        raise PatchError(f"{path}: the lines to search for occur {count} times, not once")
    files[path] = text.replace(old, new).encode(errors="replace")


def _apply_diff(files: Files, diff: str) -> Files:
    with tempfile.TemporaryDirectory() as scratch:
        _write(files, Path(scratch))
        _git("init", "--quiet", cwd=Path(scratch))
        # Else `--recount` takes blank lines, and the head of a plain diff's next file, for lines of the hunk before.
        diff = _NEXT_FILE.sub(r"\1diff -u\n", diff.rstrip("\n") + "\n")
        done = _git("apply", "--recount", "--whitespace=nowarn", "-", cwd=Path(scratch), stdin=diff)
        if done.returncode:
            raise PatchError(_last_line(done.stderr))
        return {
            path.relative_to(scratch).as_posix(): path.read_bytes()
            for path in sorted(Path(scratch).rglob("*"))
            if path.is_file() and not path.is_symlink() and path.relative_to(scratch).parts[0] != ".git"
        }


def _write(files: Files, folder: Path) -> None:
    for path, content in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise PatchError(f"{path[:100]!r} cannot be written: {reason}") from None


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and parts[0] != ".git" and "\0" not in path


def _git(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run git without anybody's configuration or hooks."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=cwd,
            input=stdin.encode(errors="replace"),
            capture_output=True,
            env=environment,
            timeout=_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        missing = cwd if not cwd.is_dir() else "git"
        raise UserError(f"{missing}: not found: {error.strerror}; install git, or correct the path") from None
    except (NotADirectoryError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{cwd}: git {arguments[0]} failed: {error}") from None


def _last_line(message: bytes) -> str:
    lines = [line for line in message.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "git says nothing"
