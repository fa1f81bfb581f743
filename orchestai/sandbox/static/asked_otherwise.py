"""Beside tests in a variant of them (see `helper_tests.py`): one call of a helper is given another value than it was.

`_KIND` and `_SALT` are set by the source that this one's is put into. Values look like those that they stand for, so
that a helper cannot tell them apart.
"""

import contextlib
import functools
import inspect
import math

_KIND = _SALT = 0


class _Now:
    """The call that is asked otherwise, and whether it was reached."""

    site = None
    reached = False


def _asking_otherwise(site, places, helper, /, *args, **kwargs):
    """Call `helper`; at the site of the variant with another value at one of `places`, numbers or names of arguments.

    The first place has what the result is held against (-1: the last argument), and the second, if there is one, the
    result.
    """
    if site != _Now.site:
        return helper(*args, **kwargs)
    _Now.reached = True
    given = dict(enumerate(args)) | kwargs
    place = list(given)[-1] if places[0] == -1 else places[-1] if _KIND == 2 else places[0]
    beside = [value for other, value in given.items() if other != place]
    last = len(places) == 2 and _KIND == 2
    given[place] = None if last else _other_value(given[place], beside, _KIND, _SALT)
    return _call(helper, given)


def _asking_about_results(site, place, helper, /, *args, **kwargs):
    """The same where it is given nothing but results: with one of the type, with None, and with an empty one."""
    if site != _Now.site:
        return helper(*args, **kwargs)
    _Now.reached = True
    given = dict(enumerate(args)) | kwargs
    value = given[place]
    given[place] = (_other_value(value, [], 0, _SALT), None, _empty(value))[_KIND]
    return _call(helper, given)


def _call(helper, given):
    """Call `helper` with the arguments that are `given` by number and by name."""
    by_name = {place: value for place, value in given.items() if isinstance(place, str)}
    return helper(*(value for place, value in given.items() if place not in by_name), **by_name)


def _passed_on(site, helper):
    """The same for a helper that something else is to call (`map`), by its last argument."""
    return _registered(site, helper) if site == _Now.site else helper


def _registered(site, helper):
    """The same for one that is to be called later."""
    return lambda *args, **kwargs: _asking_otherwise(site, (len(args) - 1,), helper, *args, **kwargs)


def _test_asking_otherwise(site, test):
    """`test` with the call at `site` asked otherwise; it fails if the call is not reached."""

    @contextlib.contextmanager
    def asking():
        _Now.site, _Now.reached = site, False
        try:
            yield
        finally:
            _Now.site = None
        if not _Now.reached:
            raise AssertionError("this helper was not asked")

    @functools.wraps(test)
    def run(self, *args):
        with asking():
            test(self, *args)

    @functools.wraps(test)
    async def run_async(self, *args):
        with asking():
            await test(self, *args)

    return run_async if inspect.iscoroutinefunction(test) else run


def _other_value(value, beside, kind, salt):
    """Another value of the type of `value`; by kind near to it, or above or below what is `beside` it.

    Raises:
        AssertionError: nothing else is known of this type.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return _other_number(value, beside, kind, salt)
    if isinstance(value, str):
        return _other_text(value, kind, salt)
    if isinstance(value, bytes):
        return _other_text(value.decode("latin-1"), kind, salt).encode("latin-1")
    if isinstance(value, (list, tuple)):
        return type(value)(_other_items(list(value), kind, salt))
    if isinstance(value, (set, frozenset)):
        return type(value)(_other_items(sorted(value, key=repr), kind, salt))
    if isinstance(value, dict):
        return _other_entries(value, kind, salt)
    if value is None:
        return (0, "none", [0])[kind]
    with contextlib.suppress(Exception):
        return value + (1 + kind + salt % 7)
    raise AssertionError(f"no other value is known of {type(value)}")


def _empty(value):
    """The least value of its type, and 0 of one that has none."""
    try:
        return type(value)()
    except Exception:
        return 0


def _other_number(value, beside, kind, salt):
    numbers = [value]
    numbers += [x for x in beside if isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)]
    if not math.isfinite(value):
        return float(kind)
    if kind == 0:
        return value + 1 + 2 * (salt % 3)
    spread = max(numbers) - min(numbers) + abs(value) + 10 + salt % 37
    return max(numbers) + spread if kind == 1 else min(numbers) - spread


def _other_text(text, kind, salt):
    if not text:
        return "abc"[: kind + 1]
    i = salt % len(text)
    if kind == 0:
        return text[:i] + chr(ord(text[i]) ^ 1) + text[i + 1 :]
    return text + text[i] if kind == 1 else text[1:]


def _other_items(items, kind, salt):
    if not items:
        return [kind]
    if kind == 0:
        return [_other_value(items[0], [], 0, salt), *items[1:]]
    numbers = [item for item in items if isinstance(item, (int, float))]
    return [*items, _other_value(items[-1], numbers, kind, salt)]


def _other_entries(entries, kind, salt):
    if not entries:
        return {kind: kind}
    key = list(entries)[salt % len(entries)]
    if kind == 0:
        return entries | {key: _other_value(entries[key], [], 0, salt)}
    if kind == 1:
        return entries | {_other_value(key, list(entries), 1, salt): entries[key]}
    return {name: value for name, value in entries.items() if name != key}
