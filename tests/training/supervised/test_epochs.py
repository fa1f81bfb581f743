"""Which epoch of phase 1 is kept."""

from __future__ import annotations

from collections import Counter

from orchestai.training.supervised.dataset import draw
from orchestai.training.supervised.epochs import Judgement, kept_epoch


def test_right_plans_count_before_the_loss() -> None:
    """A planner that grows too sure of its few mistakes has a higher loss and plans that are right more often."""
    early = Judgement.of({"exact_decomposition": 0.50, "val_loss": 4.8})
    late = Judgement.of({"exact_decomposition": 0.52, "val_loss": 5.0})
    assert late.rank > early.rank
    assert Judgement(0.52, 4.9).rank > late.rank


def test_an_earlier_epoch_is_kept_only_where_it_is_better_by_more_than_chance() -> None:
    """Two of 464 plans made the third of four epochs the best, whose learning rate had not come down yet."""
    history = [{"epoch": n, "exact_decomposition": share} for n, share in enumerate((0.40, 0.50, 0.522, 0.517), 1)]
    assert kept_epoch(history, held_out=464)["epoch"] == 4
    assert kept_epoch(history, held_out=100_000)["epoch"] == 3
    assert kept_epoch([*history, {"epoch": 5, "exact_decomposition": 0.45}], held_out=464)["epoch"] == 4
    assert kept_epoch(history[:1], held_out=1)["epoch"] == 1


# Small sources are drawn more often, all of their rows alike, and epochs stay as long as they were.


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
