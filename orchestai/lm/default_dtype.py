"""The dtype in which transformers builds a model, kept to the thread that builds it.

`from_pretrained(dtype=...)` sets torch's default dtype, which is the whole process's, while it makes a model's modules.
Whatever another thread creates in that moment, a planner that plans for one, has the wrong dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import modeling_utils

_OF_DEFAULT_DTYPE = frozenset(
    {
        torch.empty,
        torch.empty_permuted,
        torch.empty_strided,
        torch.eye,
        torch.linspace,
        torch.logspace,
        torch.ones,
        torch.rand,
        torch.randn,
        torch.scalar_tensor,
        torch.zeros,
    }
)
_OF_DTYPE_OF_NUMBERS = frozenset({torch.arange, torch.as_tensor, torch.asarray, torch.full, torch.tensor})
"""Of the default dtype if they are made of floating Python numbers."""


class ThreadDefaultDtype(TorchFunctionMode):
    """While it lasts, what this thread creates without saying in which dtype is in this one.

    What is computed of integers (`1 / torch.arange(3)`) stays in the default dtype of the process.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if given.get("dtype") is None and given.get("out") is None:
            if func in _OF_DEFAULT_DTYPE:
                given["dtype"] = self._dtype
            elif func in _OF_DTYPE_OF_NUMBERS and not _has_dtype((*args, *given.values())):
                made = func(*args, **given)
                if made.dtype != torch.get_default_dtype():
                    return made
                given["dtype"] = self._dtype
        return func(*args, **given)


def _has_dtype(values: Iterable[Any]) -> bool:
    """Whether something is created of a tensor or an array, and so in its dtype."""
    return any(hasattr(value, "dtype") for value in values)


def keep_to_its_thread() -> None:
    """Let transformers, in all that it loads from now on, set the default dtype of the loading thread alone."""
    modeling_utils.local_torch_dtype = _local_torch_dtype  # type: ignore[assignment]


def _local_torch_dtype(dtype: torch.dtype, model_class_name: str | None = None) -> AbstractContextManager[Any]:
    """In place of the function of transformers."""
    if not dtype.is_floating_point:
        raise ValueError(f"{model_class_name or 'a model'} cannot be built in {dtype}, which is no floating type")
    return nullcontext() if dtype == torch.get_default_dtype() else ThreadDefaultDtype(dtype)
