"""What tests measured of the distance between engine and policy, for the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Gaps: TypeAlias = Callable[[Sequence[float]], None]
"""Takes a test's canary gaps, in nats per token."""
NAME = "canary gaps"
