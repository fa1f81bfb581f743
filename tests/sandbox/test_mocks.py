"""Mocks of the tests: no program says what they do, and they say nothing to tests but what these told them."""

from unittest import mock
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from orchestai.sandbox.inside.ipc.exports import Exports
from orchestai.sandbox.inside.ipc.mocks import asked_by_program, hush, is_open
from orchestai.sandbox.inside.ipc.values import NotPlainError

MOCKS = (Mock, MagicMock, AsyncMock, mock.NonCallableMock, mock.NonCallableMagicMock)


def own_names(made):
    return {*vars(made), *(name for cls in type(made).__mro__ for name in vars(cls))}


@pytest.mark.parametrize("cls", MOCKS)
def test_nothing_that_mocks_have_of_themselves_is_open_to_the_program(cls):
    made = cls()
    of_functions = {"__code__", "__name__", "__defaults__", "__kwdefaults__", "__annotations__"}
    assert {name for name in own_names(made) if is_open(made, name)} <= of_functions


@pytest.mark.parametrize(
    "name",
    [
        *("_NonCallableMock__set_side_effect", "_NonCallableMock__set_return_value", "_get_child_mock", "await_count"),
        *("_execute_mock_call", "_increment_mock_call", "_mock_untold", "_spec_class", "assert_called", "__len__"),
    ],
)
def test_what_a_mock_does_and_was_asked_is_closed(name):
    made = MagicMock()
    len(made)
    assert not is_open(made, name)


def test_what_mocks_do_not_have_of_themselves_is_open_also_with_an_underscore():
    """Libraries read such of what they are handed: `ctypes` has a `_name` of each library, `turtle` a `_screen`."""
    made = MagicMock(_id=3, name="x", __name__="f")
    made._asdict.return_value = {}
    assert all(is_open(made, name) for name in ("_id", "_asdict", "_name", "__name__", "anything", "close"))


def tell_nothing(made):
    pass


def use_before(made):
    with asked_by_program():
        assert (bool(made), bool(made.x), len(made.x), int(made.x(1)), made.x(1).y is None) == (True, True, 0, 1, False)


@pytest.mark.parametrize("prepare", [tell_nothing, use_before, Exports("tests").pickled])
def test_mocks_say_nothing_that_they_were_not_told(prepare):
    made = MagicMock()
    prepare(made)
    prepare(made.x)
    hush([{"a": (made,)}])
    for say in (bool, len, int, float, lambda one: 3 in one):
        for one in (made, made.x, made.x(2), made.x(1).y, made.new, made[0].z):
            with pytest.raises(NotPlainError):
                say(one)


def test_a_mock_without_special_methods_is_not_true_by_itself():
    made = Mock()
    hush(made)
    with pytest.raises(NotPlainError):
        bool(made.is_close(3))


class Account:
    limit = 3

    class Owner:
        age = 30

    def is_open(self, when):
        return True


@pytest.mark.parametrize("instance", [False, True])
def test_what_a_mock_takes_from_what_it_is_like_says_nothing_either(instance):
    made = mock.create_autospec(Account, instance=instance)
    hush(made)
    account = made if instance else made()
    for one in (made, account, made.limit, account.limit.real, account.is_open(3), account.Owner, account.Owner().age):
        with pytest.raises(NotPlainError):
            bool(one)


def test_what_tests_told_is_said_also_where_it_is_what_mocks_say_anyway():
    made = MagicMock()
    made.a.__len__ = lambda self: 3
    made.b.__bool__ = lambda self: False
    made.c.__len__.return_value = 0
    made.d.__bool__.return_value = True
    made.e.__len__ = Mock(return_value=4)
    made.f.__bool__.side_effect = [False]
    sized = Mock(spec=list)
    sized.__len__ = lambda self: 2
    made.g = sized
    with asked_by_program():
        assert len(made.c) == 0
    hush(made)
    made.h.__len__.return_value = 5
    made.i.__len__ = lambda self: 6
    assert [len(one) for one in (made.a, made.c, made.e, made.g, made.h, made.i)] == [3, 0, 4, 2, 5, 6]
    assert [bool(one) for one in (made.b, made.d, made.f, made.g)] == [False, True, False, True]


def test_the_mark_of_a_hushed_mock_is_none_that_a_program_can_put_there():
    made = MagicMock()
    vars(made)["_get_child_mock"] = 0
    child = MagicMock()
    made.child = child
    with pytest.raises(TypeError):
        made.other()
    hush(made)
    with pytest.raises(NotPlainError):
        bool(child)


def test_what_holds_itself_and_what_is_shared_is_looked_at_once():
    circle, table, spread, deep = [], {}, [MagicMock()], MagicMock()
    circle.append(circle)
    table["a"] = table
    for _ in range(60):
        spread = [spread, spread]
    one = deep
    for _ in range(2_000):
        one = one.a
    for answer in (circle, table, spread, deep):
        hush(answer)
    with pytest.raises(NotPlainError):
        bool(one)


def test_mocks_that_are_handed_over_remember_nothing_of_it():
    made = MagicMock()
    made.x.__len__.return_value = 3
    Exports("tests").pickled([made, made.x])
    assert made.mock_calls == made.x.mock_calls == []
