"""The operations that the suite composes."""

from __future__ import annotations

from orchestai.tasks.composition.catalogue import EVERY
from orchestai.tasks.composition.operation import Operation

OPERATIONS: tuple[Operation, ...] = EVERY
BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
