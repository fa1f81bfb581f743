"""An instruction may be longer than the encoder takes at once: it is read in windows, word for word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.planner.slots.encoders.encoder import TextEncoder, _windows

STEP = "sort the list, then take its first item and double it; "


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("minilm", 2000, 3)


@given(length=st.integers(1, 3000), size=st.integers(16, 512))
def test_windows_cover_a_text_and_see_what_is_around_their_part(length: int, size: int) -> None:
    starts, cuts = _windows(length, size)
    assert cuts[0] == 0
    assert cuts[-1] == length
    assert cuts == sorted(set(cuts)), "no part is empty, and each begins where the one before ends"
    if length <= size:
        assert starts == [0]
        return
    assert starts[-1] == length - size, "all windows are whole"
    around = size // 6 - 1
    for start, begin, end in zip(starts, cuts, cuts[1:], strict=False):
        assert begin - start >= (around if begin else 0)
        assert start + size - end >= (around if end < length else 0)


def test_a_step_far_behind_means_what_it_means_in_a_short_text(encoder: TextEncoder) -> None:
    near, far = (unit(encoder.encode(STEP * times).meanings[-26:-13].astype(np.float32)) for times in (12, 90))
    assert (near * far).sum(-1).mean() > 0.7


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
