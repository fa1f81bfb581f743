"""What an answer may not say of what it was given, and what tests cannot tell of one that it may."""

import datetime
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from orchestai.sandbox.inside.ipc.values import Member, NotPlainError
from orchestai.sandbox.inside.ipc.verdicts import pleases, told

PLEASING = {
    "yes": True,
    "yes of NumPy": np.bool_(True),
    "no number": float("nan"),
    "little": -0.9,
    "zero of a decimal": Decimal(0),
    "zero of a fraction": Fraction(0),
    "zero of NumPy": np.float32(0),
    "no time": datetime.timedelta(0),
    "no time of NumPy": np.timedelta64(0, "s"),
    "zeros": [0, 0.0, (0,)],
    "a yes among others": [5, True],
    "an array of zeros": np.zeros(3),
    "an array without dimensions": np.array(0.5),
    "an array of yes": np.array([True]),
    "zeros of a table": pd.DataFrame({"a": [0.0, 0.1], "b": [0, 0]}),
    "no times of a column": pd.Series([datetime.timedelta(0)]),
    "objects that are zeros": np.array([Decimal(0), 0], dtype=object),
}
TELLING = {
    "nothing": None,
    "much": 3,
    "a text": "equal",
    "numbers": [0, 3],
    "an empty list": [],
    "an array": np.array([0.0, 3.0]),
    "a table": pd.DataFrame({"a": [0, 4], "b": ["x", "y"]}),
    "a time": datetime.timedelta(1),
    "a date": np.datetime64("2020-01-01"),
}


@pytest.mark.parametrize("value", PLEASING.values(), ids=PLEASING)
def test_what_pleases_by_itself_is_told(value):
    assert pleases(value)


@pytest.mark.parametrize("value", TELLING.values(), ids=TELLING)
def test_what_only_some_would_say_is_not_refused(value):
    assert not pleases(value)


@pytest.mark.parametrize("value", [7, -5.5, Decimal(7), Fraction(7, 2), np.float64(7), np.int64(7)])
def test_a_number_that_was_told_equals_what_it_is_and_is_not_more_or_less(value):
    number = told(value)
    assert number == value
    assert isinstance(number, type(value))
    assert hash(number) == hash(value)
    for claim in (lambda: number < 99, lambda: max(number, 99), lambda: bool(number), lambda: abs(number) < 99):
        with pytest.raises(NotPlainError):
            claim()
    assert type(pickle.loads(pickle.dumps(number))) is type(value)
    assert not pleases(number)
    assert told(number) is number


@pytest.mark.parametrize("compute", [lambda n: sum([n, n]) / 2, lambda n: 3 * n**2, lambda n: -n % 4, lambda n: n - n])
def test_what_tests_compute_of_a_number_that_was_told_is_no_more_or_less(compute):
    for value in (-25, -25.0):
        number = compute(told(value))
        assert number == compute(value)
        with pytest.raises(NotPlainError):
            assert number < 99


def test_tests_judge_how_far_a_number_that_was_told_is_from_one_of_theirs():
    assert abs(told(5.04) - 5) < 0.1
    assert abs(5.04 - told(5)) < 0.1
    assert not abs(told(-25) - 5) < 0.1
    with pytest.raises(NotPlainError):
        assert told(-25) - 5 < 0.1


def test_a_text_that_was_told_stays_so_whatever_is_made_of_it():
    assert told(" Yes ").strip().lower() + "!" == "yes!"
    assert told("a,b").split(",") == ["a", "b"]
    with pytest.raises(NotPlainError):
        assert told(" yes ").strip()


@pytest.mark.parametrize("value", ["text", b"bytes", [1], (1, 2), {"a": 1}, {1}, frozenset({1})])
def test_what_was_told_is_neither_true_nor_false(value):
    answer = told(value)
    assert answer == value
    assert len(answer) == len(value)
    assert pickle.loads(pickle.dumps(answer)) == value
    with pytest.raises(NotPlainError):
        assert answer


def test_a_class_as_an_attribute_equals_the_class_and_gives_no_verdict():
    member = Member(bool)
    assert [member] == [bool]
    assert isinstance(True, member)
    assert pickle.loads(pickle.dumps(member)) is bool
    with pytest.raises(NotPlainError):
        member(3)
    assert Member(str)(3) == "3"
