"""What is kept on disk must be what was computed, whoever wrote there since, and must not fill the disk."""

from __future__ import annotations

import subprocess
import sys

from orchestai.storage.byte_store import FOLDERS, ByteStore

MANY = 1 << 30


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_saved_is_found_by_its_key_alone(tmp_path):
    store = ByteStore(tmp_path, MANY)
    store.save("one", b"\0first")
    store.save("two", b"")
    again = ByteStore(tmp_path, MANY)
    assert (again.load("one"), again.load("two"), again.load("three")) == (b"\0first", b"", None)


def test_the_bytes_are_bounded_and_what_was_used_lately_stays(tmp_path):
    """The bound holds after every single file, though each folder counts its own files alone."""
    size, share, count = 100, 300, 3 * FOLDERS
    store = ByteStore(tmp_path, FOLDERS * share)
    store.save("kept", bytes(size))
    for i in range(count):
        store.save(str(i), bytes(size))
        assert store.load("kept") is not None
    used = [sum(path.stat().st_size for path in folder.iterdir()) for folder in tmp_path.iterdir()]
    assert max(used) <= share
    assert sum(used) > FOLDERS * share / 2
    assert store.load(str(count - 1)) is not None
    store.save("large", bytes(share))
    assert store.load("large") is None


def test_several_processes_write_and_read_the_same_keys(tmp_path):
    """Each sees whole contents or nothing, while others replace and remove the files under its hands."""
    program = """
import sys
from pathlib import Path
from orchestai.storage.byte_store import FOLDERS, ByteStore
store = ByteStore(Path(sys.argv[1]), FOLDERS * 300)
for turn in range(200):
    key = str(turn % 40)
    found = store.load(key)
    assert found in (None, key.encode() * 60), found
    store.save(key, key.encode() * 60)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert said == [""] * 3
    assert [process.returncode for process in running] == [0] * 3
