"""One scale of preferences, whoever reads it: by hand, at its ends, and against the rule that ranks options."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.estimate.preference import by_preference
from orchestai.preference import Preference, weight_of_price


def test_shares_by_hand():
    """At 0.5 a typical price outweighs a success just so; at 0.75 it weighs a ninth of one."""
    assert Preference(0.5).shares == (0.5, 0.5, 0.0)
    assert Preference(0.75).shares == pytest.approx((0.9, 0.1, 0.0))
    assert Preference(0.5, time_share=0.4).shares == pytest.approx((0.5, 0.3, 0.2))
    assert Preference(1.0, 0.4).shares == (1.0, 0.0, 0.0)
    assert Preference(0.0, 0.25).shares == (0.0, 0.75, 0.25)


def test_an_hour_is_worth_a_share_of_the_price_and_back():
    """An execution of a dollar and half an hour, at two dollars an hour: half of the price is time."""
    assert Preference.priced(0.5, 2.0, 1.0, 1800.0) == Preference(0.5, 0.5)
    assert Preference.priced(0.5, 0.0, 0.0, 0.0) == Preference(0.5)
    for share in (0.0, 0.2, 0.9):
        hour = Preference(0.5, share).hour_usd(0.3, 40.0)
        assert Preference.priced(0.5, hour, 0.3, 40.0).time_share == pytest.approx(share)
    assert Preference(0.5, 0.5).hour_usd(0.0, 40.0) == 0.0


@pytest.mark.parametrize("wrong", [{"prefer": 1.1}, {"prefer": -0.1}, {"prefer": 0.5, "time_share": 2.0}])
def test_what_is_off_the_scale_is_refused(wrong):
    with pytest.raises(ValueError, match="not from 0 to 1"):
        Preference(**wrong)


options = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 100)), min_size=2, max_size=6)


@given(options, st.floats(0.01, 1))
def test_shares_rank_options_as_a_preference_does(found, prefer):
    """The reward of phase 2 and the choice by the estimate agree on what is best."""
    success, price = np.array(found).T
    right, cost, latency = Preference(prefer).shares
    assert (right + cost + latency, latency) == pytest.approx((1.0, 0.0))
    assert cost == pytest.approx(right * weight_of_price(prefer), abs=1e-12)
    worth = right * success - cost * price
    assert worth[by_preference(success, price, prefer)[0]] == pytest.approx(worth.max(), abs=1e-9)
