"""Small sources are drawn more often, all of their rows alike, and epochs stay as long as they were."""

from __future__ import annotations

from collections import Counter

from orchestai.training.supervised.mixture_sampling import draw

SOURCES = ["large"] * 900 + ["middle"] * 100 + ["small"] * 9


def test_without_a_temperature_each_row_is_drawn_once():
    assert draw(SOURCES, 1.0, seed=0, epoch=0) == list(range(len(SOURCES)))


def test_at_temperature_2_shares_go_by_the_root_of_the_size():
    """30 : 10 : 3, of 1,009 rows."""
    drawn = draw(SOURCES, 2.0, seed=0, epoch=0)
    assert Counter(SOURCES[row] for row in drawn) == {"large": 704, "middle": 235, "small": 70}
    times = Counter(drawn)
    for source in ("large", "middle", "small"):
        used = {times[row] for row, of in enumerate(SOURCES) if of == source}
        assert max(used) - min(used) <= 1


def test_epochs_differ_and_can_be_repeated():
    first, again, second = (draw(SOURCES, 2.0, seed=0, epoch=epoch) for epoch in (0, 0, 1))
    assert first == again != second
