"""Files that are either whole or absent, and lines appended whole: what a reader may rely on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

from filelock import lock_descriptor

from orchestai.config.section import Section
from orchestai.errors import UserError

_REPORTED_PACKAGES = ("orchestai", "torch", "transformers", "peft", "accelerate", "numpy", "pydantic")
_PAUSE_S = 0.002


@contextmanager
def replacing(path: Path | str) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well, and vanishes when it does not.

    Raises:
        UserError: the file cannot be written (no space, no permission, no such folder).
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path)
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        remedy = "free space, or choose another folder" if error.errno == errno.ENOSPC else "choose another folder"
        raise UserError(f"{path}: cannot write: {error.strerror or error}; {remedy}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path | str) -> Iterator[Path]:
    """An empty folder that takes the place of `path` when the block ends well, and vanishes when it does not.

    Where a crash falls between the two renames that this takes, `restore_folder(path)` brings the folder before back.

    Raises:
        UserError: it cannot be written (no space, no permission, a file of that name).
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path)
        temporary.mkdir()
        mode = temporary.stat().st_mode & 0o666
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                file.chmod(mode)
                with file.open("r+b") as written:
                    os.fsync(written.fileno())
        before = previous_folder(path)
        if path.is_dir():
            shutil.rmtree(before, ignore_errors=True)
            os.replace(path, before)
        os.replace(temporary, path)
        shutil.rmtree(before, ignore_errors=True)
    except OSError as error:
        remedy = "free space, or choose another folder" if error.errno == errno.ENOSPC else "choose another folder"
        raise UserError(f"{path}: cannot write: {error.strerror or error}; {remedy}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def clone(source: Path, target: Path) -> None:
    """A file or folder again at another place, without taking space where the file system has hard links.

    Only for what is replaced as a whole, as everything here is: a file that is changed in place changes in both.
    """

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    if source.is_dir():
        shutil.copytree(source, target, copy_function=link)
    else:
        link(str(source), str(target))


def previous_folder(path: Path) -> Path:
    """Where the folder that `replacing_folder` is about to replace waits."""
    return path.with_name(f".{path.name}.previous")


def restore_folder(path: Path) -> None:
    """Put a folder back that `replacing_folder` was about to replace when it was killed."""
    before = previous_folder(path)
    if not path.exists() and before.is_dir():
        before.rename(path)


def check_run(state: Path, *others: Path, resume: bool) -> None:
    """Raise `UserError` where there is no run to resume, or a new one would overwrite one.

    Args:
        state: the file or folder from which a run goes on.
        others: what other kinds of run leave in its place.
    """
    found = [path for path in (state, *others) if path.exists() or previous_folder(path).exists()]
    if resume and state not in found:
        raise UserError(f"{state}: no run to resume here; start one without --resume")
    if found and not resume:
        raise UserError(
            f"{found[0].parent} holds a run already ({found[0].name}): go on with it (--resume, or resume=true with "
            "train.py), or choose another output folder (--output_dir, output_dir=)"
        )


def write_bytes(path: Path | str, data: bytes | memoryview) -> None:
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path | str, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path | str, value: Any) -> None:
    """Indented JSON; NaN and infinities are refused (ValueError), since most readers refuse them."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append(path: Path | str, lines: bytes, *, flush: bool = True) -> None:
    """Append whole lines as one write, under a lock; several processes may do so.

    A torn last line that a crash left is ended first, so that nothing is lost with it.

    Args:
        flush: whether they are on the disk on return.

    Raises:
        UserError: they could not be written; the file is then as it was before.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b", buffering=0) as file:
            with suppress(OSError):  # lines of one process are whole without locks
                lock_descriptor(file.fileno(), poll_interval=_PAUSE_S)
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    lines = b"\n" + lines
            try:
                written = file.write(lines)
                if written < len(lines):
                    raise OSError(f"only {written} of {len(lines)} bytes fitted")
                if flush:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: cannot write: {reason}; free space or choose another folder") from error


def read_lines(path: Path) -> tuple[list[tuple[str, Any]], list[str]]:
    """The JSON lines of a file as (`FILE:LINE`, value), and a complaint for each that is not whole.

    Raises:
        UserError: the file cannot be read.
    """
    values: list[tuple[str, Any]] = []
    problems: list[str] = []
    for line in each_line(path):
        if isinstance(line, str):
            problems.append(line)
        else:
            values.append(line)
    return values, problems


def each_line(path: Path) -> Iterator[tuple[str, Any] | str]:
    """The same one by one, for files larger than memory: a JSON line as (`FILE:LINE`, value), or a complaint.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield f"{path}:{number}", json.loads(line)
                    except (ValueError, RecursionError):
                        yield f"{path}:{number}: not whole (its writer was cut off, or the file was damaged); skipped"
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror or error}") from None


def save_run_info(output_dir: Path | str, config: Section, *, command: str, **facts: Any) -> None:
    """Write `COMMAND.config.yaml` (resolved) and `COMMAND.run.json` (versions, machine, facts) into `output_dir`."""
    output_dir = Path(output_dir)
    write_text(output_dir / f"{command}.config.yaml", config.to_yaml())
    info = {"command": command, "versions": versions(), "platform": platform.platform(), **facts}
    write_json(output_dir / f"{command}.run.json", info)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version()}
    for package in _REPORTED_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def fingerprint(value: Any) -> str:
    """sha256 of the canonical JSON of `value`, as 16 hexadecimal digits."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _temporary(path: Path) -> Path:
    """A name beside `path` that nobody has; what is made there gets the permissions that the user's umask leaves."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
