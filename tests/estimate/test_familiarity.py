"""An estimate learned on one suite expected two in five of the natural tasks to be solved, of which none was."""

import numpy as np

from orchestai.planner.outlook import Familiarity

RNG = np.random.default_rng(0)


def around(centers: np.ndarray, count: int, spread: float) -> np.ndarray:
    """(centers * count, width) unit vectors about the centers."""
    found = np.repeat(centers, count, axis=0)
    found = found + spread * RNG.standard_normal(found.shape)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_of_other_things_it_knows_nothing_and_of_its_own_nearly_all():
    own, other = np.eye(64)[:8], np.eye(64)[8:]
    known = Familiarity.of(around(own, 40, 0.1))
    assert known.knows(around(own, 25, 0.1)).mean() > 0.95
    assert known.knows(known.embeddings).all()
    assert not known.knows(around(other, 25, 0.1)).any()


def test_where_all_that_was_attempted_is_nearly_the_same_other_words_for_it_are_known():
    """Of a hundred "look up town N" each is far more like the next than "look the town up" is."""
    alike = Familiarity.of(around(np.eye(8)[:1], 100, 0.02))
    other_words = np.array([[0.8, 0.6, 0, 0, 0, 0, 0, 0]])
    assert alike.knows(other_words).all()
    assert not alike.knows(np.eye(8)[1:2]).any()


def test_one_alone_knows_itself():
    assert Familiarity.of(np.eye(4)[:1]).knows(np.eye(4)[:2]).tolist() == [True, False]
