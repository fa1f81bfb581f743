"""Arrays, tables and their scalars as plain parts, and back: no code of the sender's decides what they become.

A value is taken apart as (kind, part, ...). Parts are plain values, or again values that can be taken apart.
"""

from __future__ import annotations

import pickle
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

PLAIN_KINDS = "biufcSUMm"
_PRIMITIVE = frozenset((str, bytes, int, float, bool, type(None)))


def take_apart(value: Any) -> tuple[Any, ...] | None:
    """The kind and the parts of an `array.array` or of a numpy or pandas value; None of anything else."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if type(value) is array:
        return "typed", value.typecode, value.tobytes()
    if pandas is not None and hasattr(pandas, "DataFrame"):
        parts = _take_apart_pandas(pandas, value)
        if parts is not None:
            return parts
    if numpy is None or not hasattr(numpy, "ndarray"):
        return None
    if isinstance(value, numpy.ndarray):
        value = numpy.asarray(value)
        if value.dtype.kind in PLAIN_KINDS:
            return "array", value.dtype.str, value.shape, value.tobytes()
        return ("objects", value.shape, _packed(value.ravel().tolist())) if value.dtype == object else None
    if isinstance(value, numpy.generic) and value.dtype.kind in PLAIN_KINDS:
        return "scalar", value.dtype.str, value.tobytes()
    return ("dtype", value.str) if isinstance(value, numpy.dtype) and value.kind in PLAIN_KINDS else None


def is_mutable(value: Any) -> bool:
    """Whether the value is a table or an array that a function may change in place."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    return (
        type(value) is array
        or (numpy is not None and type(value) is getattr(numpy, "ndarray", None))
        or (pandas is not None and type(value) in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)))
    )


class Packed:
    """Many primitive values in one pickle: those are decoded by C code, a hundred times as fast."""

    def __init__(self, values: list[Any]) -> None:
        self.data = pickle.dumps(values)


def _packed(values: list[Any]) -> Any:
    return Packed(values) if all(type(value) in _PRIMITIVE for value in values) else values


def put_together(kind: str, *parts: Any) -> Any:
    """What was taken apart. Raises KeyError for an unknown kind, and whatever wrong parts lead to."""
    return _BUILDERS[kind](*parts)


def _take_apart_pandas(pandas: Any, value: Any) -> tuple[Any, ...] | None:
    cls = type(value)
    if isinstance(value, pandas.DataFrame):
        columns = [_values(value.iloc[:, i].array) for i in range(value.shape[1])]
        return "frame", value.index, value.columns, columns, dict(value.attrs)
    if isinstance(value, pandas.Series):
        return "series", _values(value.array), value.index, value.name
    if isinstance(value, pandas.Index):
        return _take_apart_index(pandas, value)
    if value is pandas.NaT:
        return ("nat",)
    if value is pandas.NA:
        return ("na",)
    if cls is pandas.Timestamp:
        return "timestamp", value.value, value.unit, None if value.tz is None else str(value.tz)
    if cls is pandas.Timedelta:
        return "timedelta", value.value, value.unit
    if cls is pandas.Interval:
        return "interval", value.left, value.right, value.closed
    if cls is pandas.Period:
        return "period", value.ordinal, value.freqstr
    if cls is pandas.Categorical:
        return _values(value)
    return None


def _take_apart_index(pandas: Any, index: Any) -> tuple[Any, ...]:
    if isinstance(index, pandas.RangeIndex):
        return "range", index.start, index.stop, index.step, index.name
    if isinstance(index, pandas.MultiIndex):
        return "multi", [index.get_level_values(i) for i in range(index.nlevels)], list(index.names)
    freq = getattr(index, "freqstr", None) if isinstance(index, (pandas.DatetimeIndex, pandas.TimedeltaIndex)) else None
    return "index", _values(index.array), index.name, freq


def _values(array: Any) -> tuple[Any, ...]:
    """The values of a column or an index, whose dtype must survive."""
    if array.dtype.name == "category":
        return "categorical", array.codes, array.categories, bool(array.ordered)
    wraps = type(array).__name__ in ("NumpyExtensionArray", "PandasArray")  # an array of numpy's
    if wraps or type(array.dtype).__module__.startswith("numpy"):
        return "column", array.to_numpy()
    if (zone := getattr(array.dtype, "tz", None)) is not None:
        return "zoned", array.asi8, array.dtype.unit, str(zone)
    if (freq := getattr(array, "freqstr", None)) is not None:
        return "periods", array.asi8, freq
    if hasattr(array, "_mask") or (array.dtype.kind == "O" and array.dtype.type is str):
        return "extension", str(array.dtype), _packed(array.to_numpy(object, na_value=None).tolist())
    return "extension", str(array.dtype), list(array)


def _numpy() -> Any:
    import numpy

    return numpy


def _pandas() -> Any:
    """pandas, whose extension arrays are neither true nor false, as NumPy's: comparing indices of such yields one."""
    import pandas

    pandas.api.extensions.ExtensionArray.__bool__ = _undecided
    return pandas


def _undecided(_: Any) -> bool:
    raise ValueError("the truth value of an array is ambiguous")


def _array(dtype: str, shape: Any, data: bytes) -> Any:
    if dtype[1:2] not in PLAIN_KINDS:
        raise ValueError(dtype)
    return _numpy().frombuffer(data, dtype=dtype).reshape(shape).copy()


def _objects(shape: Any, values: list[Any]) -> Any:
    numpy = _numpy()
    array = numpy.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array.reshape(shape)


def _frame(index: Any, columns: Any, values: list[Any], attrs: dict[str, Any]) -> Any:
    pandas = _pandas()
    series = [pandas.Series(put_together(*column), index=index) for column in values]
    frame = pandas.concat(series, axis=1) if series else pandas.DataFrame(index=index)
    frame.columns = columns
    frame.attrs.update(attrs)
    return frame


def _index(values: Any, name: Any, freq: str | None) -> Any:
    index = _pandas().Index(put_together(*values), name=name)
    if freq is not None:
        index.freq = freq
    return index


def _zoned(times: Any, unit: str, zone: str) -> Any:
    return _pandas().DatetimeIndex(times.view(f"M8[{unit}]")).tz_localize("UTC").tz_convert(zone).array


_BUILDERS: dict[str, Any] = {
    "typed": array,
    "array": _array,
    "objects": _objects,
    "scalar": lambda dtype, data: _array(dtype, (), data)[()],
    "dtype": lambda dtype: _numpy().dtype(dtype),
    "column": lambda values: values,
    "categorical": lambda codes, categories, ordered: _pandas().Categorical.from_codes(codes, categories, ordered),
    "extension": lambda dtype, values: _pandas().array(values, dtype=dtype),
    "zoned": _zoned,
    "periods": lambda ordinals, freq: _pandas().PeriodIndex.from_ordinals(ordinals, freq=freq).array,
    "frame": _frame,
    "series": lambda values, index, name: _pandas().Series(put_together(*values), index=index, name=name),
    "range": lambda start, stop, step, name: _pandas().RangeIndex(start, stop, step, name=name),
    "multi": lambda levels, names: _pandas().MultiIndex.from_arrays(levels, names=names),
    "index": _index,
    "nat": lambda: _pandas().NaT,
    "na": lambda: _pandas().NA,
    "timestamp": lambda value, unit, tz: _pandas().Timestamp(value, unit="ns", tz=tz).as_unit(unit),
    "timedelta": lambda value, unit: _pandas().Timedelta(value, unit="ns").as_unit(unit),
    "interval": lambda left, right, closed: _pandas().Interval(left, right, closed),
    "period": lambda ordinal, freq: _pandas().Period(ordinal=ordinal, freq=freq),
}


_MUTABLE = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict, tuple)


def may_change(value: Any) -> bool:
    """Whether it, or something in it, can be changed in place, and such changes are repeated."""
    return type(value) in _MUTABLE or is_mutable(value)


def state(value: Any) -> bytes:
    """To tell whether a value was changed; empty for one that cannot be told."""
    try:
        return pickle.dumps(value)
    except Exception:
        return b""


def mirror(target: Any, value: Any) -> None:
    """Give `target` the content of `value` if both are of the same mutable plain type, and so on inside."""
    if type(target) is not type(value):
        return
    if isinstance(target, (list, deque)):
        old = list(target)
        target.clear()
        target.extend(_merged(old[i], new) if i < len(old) else new for i, new in enumerate(value))
    elif isinstance(target, dict):
        before = dict(target)
        target.clear()
        dict.update(target, {key: _merged(before[key], new) if key in before else new for key, new in value.items()})
    elif isinstance(target, tuple):
        for old, new in zip(target, value, strict=False):
            _merged(old, new)
    elif isinstance(target, set):
        target.clear()
        target.update(value)
    elif isinstance(target, (bytearray, array)):
        target[:] = value
    elif hasattr(target, "_update_inplace"):
        target._update_inplace(value)
    elif is_mutable(target) and target.shape == value.shape and target.dtype == value.dtype:
        target[...] = value


def _merged(old: Any, new: Any) -> Any:
    """`old`, made equal to `new`, where it is something that a function may have changed in place; else `new`."""
    if type(old) is not type(new) or not may_change(old):
        return new
    if isinstance(old, tuple):
        return tuple(_merged(*pair) for pair in zip(old, new, strict=True)) if len(old) == len(new) else new
    mirror(old, new)
    return old
