"""A training of an hour must not come to hold ten times the memory that it needs."""

import ctypes
import sys

import pytest
import torch

from orchestai.sandbox.inside.jail.processes import resident_bytes
from orchestai.training.learner import FreedMemory

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc gives memory back"
)
MIB = 1 << 20


def holes(total: int) -> list[torch.Tensor]:
    """Blocks in use with freed ones between them, about `total` bytes in all, beside what other tests left."""
    torch.ones(8 * MIB, dtype=torch.uint8)  # freed at once: from now on glibc keeps blocks of this size and smaller
    blocks = [torch.ones(3 * MIB, dtype=torch.uint8) for _ in range(total // (3 * MIB))]
    return blocks[::20]


def test_memory_between_blocks_in_use_is_given_back_after_growth_by_a_gib():
    ctypes.CDLL(None).malloc_trim(0)  # else they may lie in what earlier tests freed, and nothing grows
    freed = FreedMemory()
    freed.give_back()
    kept = holes(1200 * MIB)
    held = resident_bytes()
    freed.give_back()
    assert held - resident_bytes() > 900 * MIB
    assert all(int(block.sum()) == 3 * MIB for block in kept)


def test_what_every_step_needs_is_not_given_back_between_steps():
    """A language model's step needs more than a GiB; to ask for it anew each time cost a training much of its time."""
    ctypes.CDLL(None).malloc_trim(0)
    freed = FreedMemory()
    kept = holes(1200 * MIB)
    held = resident_bytes()
    for _ in range(3):
        freed.give_back()
    assert abs(held - resident_bytes()) < 32 * MIB
    assert kept
