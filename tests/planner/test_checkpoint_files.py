"""A planner is found by the folder of its run, whatever kind it is and whichever phase wrote last."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.planner.checkpoint_files import FIRST, LAST, METADATA, locate


def make(path: Path, *, language: bool) -> Path:
    if not language:
        path.write_bytes(b"weights")
        return path
    folder = path.with_suffix("")
    folder.mkdir()
    (folder / METADATA).write_text("{}")
    return folder


@pytest.mark.parametrize("language", [False, True])
def test_a_run_s_folder_stands_for_its_latest_planner(tmp_path: Path, language: bool) -> None:
    """As a job gets it whose checkpoint is another job's whole output."""
    assert locate(tmp_path) == tmp_path, "nothing is there yet"
    first = make(tmp_path / FIRST, language=language)
    assert locate(tmp_path) == first == locate(tmp_path / FIRST)
    last = make(tmp_path / LAST, language=language)
    assert locate(tmp_path) == last
    assert locate(first) == first
