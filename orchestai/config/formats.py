"""Dtypes, as the configuration names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

WeightFormat: TypeAlias = Literal["float32", "bfloat16", "float16"]


def _no(value: Any) -> Any:
    """YAML reads a bare `no` as false."""
    return "no" if value is False else value


MixedPrecision: TypeAlias = Annotated[Literal["no", "bf16", "fp16"], BeforeValidator(_no)]
