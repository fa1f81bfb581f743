"""Tables of hundreds of thousands of rows, which tests must get as they are and in time."""

import time

import pytest

from orchestai.sandbox.inside.ipc import values

pandas = pytest.importorskip("pandas")
N = 200_000


def columns():
    times = pandas.date_range("2024-01-01", periods=N, freq="s")
    yield from (times.tz_localize(zone).as_unit("ms") for zone in ("UTC", "Europe/Berlin", "UTC+05:30"))
    yield from ([f"name {i}" for i in range(N - 1)] + [missing] for missing in ("", None))
    yield pandas.array([*range(N - 1), None], dtype="Int64")
    yield pandas.array([True, None] * (N // 2), dtype="boolean")
    yield pandas.array(["a", None] * (N // 2), dtype="string")
    yield pandas.period_range("2000-01-01", periods=N, freq="h")
    yield pandas.Series(["a", 1, None, 2.5] * (N // 4), dtype=object)
    yield pandas.Categorical(["a", None] * (N // 2))


@pytest.mark.slow
@pytest.mark.parametrize("column", columns(), ids=lambda column: str(getattr(column, "dtype", "list")))
def test_large_columns_cross_unchanged_and_in_time(column):
    table = pandas.DataFrame({"column": column, "row": range(N)})
    begin = time.process_time()
    crossed = values.decode(values.encode(table))
    assert time.process_time() - begin < 2
    pandas.testing.assert_frame_equal(crossed, table)
