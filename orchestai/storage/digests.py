"""Digests of what training wrote, so that damaged weights are refused, not used.

A file of `save_torch` carries its own, as the comment of the zip archive that it is, and still opens with `torch.load`.
A folder has the file SHA256SUMS, which `sha256sum -c` reads, too; files that carry their own are not in it.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import torch

from orchestai.errors import UserError
from orchestai.storage import artifacts

SUMS = "SHA256SUMS"
_SEALED_SUFFIXES = (".pt", ".pth")
_MARK = b"sha256:"
_COMMENT_BYTES = len(_MARK) + 64
_END_OF_ARCHIVE = b"PK\x05\x06"
_END_BYTES = 22
"""Of a zip archive's last record, in which the length of the comment comes last."""
_LINE = re.compile(r"^([0-9a-f]{64})  (.+)$", re.MULTILINE)
_THREADS = 4
_READ_BYTES = 1 << 20


def save_torch(path: Path | str, value: Any) -> None:
    """`torch.save`, atomically and with a digest. In memory first, so that a full disk is reported as such.

    Raises:
        UserError: the file cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(value, buffer)
    end = bytes(buffer.getbuffer()[-_END_BYTES:])
    assert (end[:4], end[-2:]) == (_END_OF_ARCHIVE, b"\0\0"), "torch.save wrote an archive with a comment, or none"
    buffer.seek(-2, io.SEEK_END)
    buffer.write(_COMMENT_BYTES.to_bytes(2, "little"))
    buffer.write(_MARK + hashlib.sha256(buffer.getbuffer()).hexdigest().encode())
    artifacts.write_bytes(path, buffer.getbuffer())


def load_torch(path: Path, remedy: str) -> Any:
    """What `save_torch` wrote, on the CPU.

    Args:
        remedy: what to do where it cannot be used.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is damaged, or not from here.
    """
    try:
        with path.open("rb") as file:
            found = _digest(file, path.stat().st_size - _COMMENT_BYTES)
            comment = file.read()
        if not comment.startswith(_MARK):
            raise UserError(f"{path}: damaged, or not written by this version (it has no digest); {remedy}")
        if comment != _MARK + found.encode():
            raise UserError(f"{path}: damaged: its content is not what was written; {remedy}")
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise UserError(f"{path}: not readable ({type(error).__name__}: {error}); {remedy}") from None


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS for all files of a folder that is finished."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix not in _SEALED_SUFFIXES]
    names = [file.relative_to(folder).as_posix() for file in files if file.name != SUMS]
    lines = (f"{digest}  {name}\n" for name, digest in zip(names, _digests(folder, names), strict=True))
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def check_sums(folder: Path, remedy: str, only: str | None = None) -> None:
    """Compare the files of a folder, or `only` that one, with SHA256SUMS.

    Raises:
        UserError: a file is damaged or missing, or the folder is not from here.
    """
    try:
        text = (folder / SUMS).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{folder}: not written by this version (it has no {SUMS}); {remedy}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / SUMS}: damaged ({error}); {remedy}") from None
    sums = {name: digest for digest, name in _LINE.findall(text)}
    is_whole = text == "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    needed = {only} if only else {file.relative_to(folder).as_posix() for file in folder.rglob("*.safetensors")}
    if not is_whole or not needed <= sums.keys():
        raise UserError(f"{folder / SUMS}: damaged: it is not what was written; {remedy}")
    names = [only] if only else list(sums)
    try:
        found = _digests(folder, names)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot read: {error.strerror}, and {SUMS} names it; {remedy}") from None
    for name, digest in zip(names, found, strict=True):
        if digest != sums[name]:
            raise UserError(f"{folder / name}: damaged: its content is not what was written; {remedy}")


def check_finite(path: Path, weights: Any) -> None:
    """Refuse numbers that are not finite in tensors, or in dictionaries and lists of some.

    Raises:
        UserError: with the first name that has one.
    """
    for name, tensor in _tensors(weights):
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        lowest, highest = tensor.detach().aminmax()  # NaN if there is one
        if not (lowest.isfinite() and highest.isfinite()):
            raise UserError(
                f"{path}: {name} holds numbers that are not finite, so training diverged; pass a checkpoint from "
                "before, or train again with a lower learning rate"
            )


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping | list | tuple):
        items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            yield from _tensors(inner, f"{name}.{key}" if name else str(key))


def _digests(folder: Path, names: Iterable[str]) -> list[str]:
    def one(name: str) -> str:
        with (folder / name).open("rb") as file:
            return _digest(file, (folder / name).stat().st_size)

    with ThreadPoolExecutor(_THREADS) as threads:  # hashing lets go of the interpreter
        return list(threads.map(one, names))


def _digest(file: BinaryIO, size: int) -> str:
    """sha256 of the next `size` bytes."""
    digest = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, _READ_BYTES))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()
