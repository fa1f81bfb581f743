"""Every text is in exactly one batch, and none beside one that is out of its order of length."""

from hypothesis import given
from hypothesis import strategies as st

from orchestai.lm.length_batches import length_batches


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 9)), st.integers(1, 7))
def test_batches_are_full_and_in_order_of_length(lengths, size):
    batches = list(length_batches(lengths, size))
    flat = [key for batch in batches for key in batch]
    assert sorted(flat) == sorted(lengths)
    assert [lengths[key] for key in flat] == sorted(lengths.values())
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batches)
