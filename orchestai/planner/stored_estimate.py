"""The pool's estimate on disk: as a file of its own beside training data, and inside checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from orchestai.errors import UserError
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.storage import digests

STATE_KEY: Final = "worker_estimate"
"""Of a checkpoint."""
FORMAT: Final = "orchestai.worker_estimate/2"
_REMEDY = "run prepare again"
T = TypeVar("T")


def estimate_path(training_file: Path | str) -> Path:
    """`training_data.json` -> `training_data.estimate.pt`."""
    return Path(training_file).with_suffix(".estimate.pt")


def write_estimate(path: Path, estimate: PoolEstimate | None) -> None:
    """Write a file that `read_state` reads; without an estimate there is none, and a former one is removed.

    Raises:
        UserError: the file cannot be written.
    """
    if estimate is None:
        path.unlink(missing_ok=True)
    else:
        digests.save_torch(path, to_state(estimate))


def read_state(path: Path) -> dict[str, Any] | None:
    """What `write_estimate` wrote, as a checkpoint keeps it; None where there is no such file.

    Raises:
        UserError: it is damaged, or something else.
    """
    try:
        state = digests.load_torch(path, _REMEDY)
    except FileNotFoundError:
        return None
    of_state(state, str(path))
    assert isinstance(state, dict)
    return state


def to_state(estimate: PoolEstimate) -> dict[str, Any]:
    """Plain types and tensors."""
    return {"format": FORMAT, **_packed(estimate, {})}


def of_state(state: object, where: str) -> PoolEstimate:
    """The estimate that `to_state` was given.

    Raises:
        UserError: it is none of this version; the message begins with `where`.
    """
    found = state.get("format") if isinstance(state, Mapping) else None
    if not isinstance(state, Mapping) or found != FORMAT:
        raise UserError(f"{where}: its estimate of the workers is of format {found!r}, not {FORMAT!r}; {_REMEDY}")
    try:
        return _unpacked(PoolEstimate, state)
    except (KeyError, TypeError) as error:
        raise UserError(f"{where}: its estimate of the workers is damaged ({error!r}); {_REMEDY}") from None


def _packed(value: Any, tensors: dict[int, Tensor]) -> Any:
    """Arrays that several parts share are one tensor, which is stored once."""
    if is_dataclass(value):
        return {field.name: _packed(getattr(value, field.name), tensors) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return tensors.setdefault(id(value), torch.from_numpy(np.ascontiguousarray(value)))
    if isinstance(value, tuple):
        return [_packed(part, tensors) for part in value]
    return value


def _unpacked(kind: type[T], state: Mapping[str, Any]) -> T:
    return kind(**{name: _value(hint, state[name]) for name, hint in get_type_hints(kind).items()})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, list):
        parts = get_args(hint) if get_origin(hint) is tuple else ()
        return tuple(_value(parts[0] if parts else None, part) for part in value)
    return _unpacked(hint, value) if isinstance(hint, type) and is_dataclass(hint) else value
