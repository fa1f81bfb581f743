"""A planner is found by the folder of its run, whatever kind it is and whichever phase wrote last."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.planner.checkpoint_files import FIRST, LAST, METADATA, last_of, locate


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


@pytest.mark.parametrize("language", [False, True])
def test_of_a_job_s_results_it_is_the_best_that_phase_2_kept(tmp_path: Path, language: bool) -> None:
    """SageMaker's `model/` has no last policies, so the results of one job could not begin the next."""
    make(tmp_path / FIRST, language=language)
    best = make(tmp_path / "phase2_best.pth", language=language)
    assert locate(tmp_path) == best == last_of(tmp_path)
