"""A composition: operations joined as a DAG, run as one function of one input."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestai.tasks.composition.operation import Kind, Operation, Value

INPUT = -1
"""Index of the task's input among the parents of a node."""


class OutOfDomainError(ValueError):
    """An operation met an argument on which its wording does not say what it does."""


@dataclass(frozen=True)
class Node:
    """One operation and where its arguments come from: indices of earlier nodes, or `INPUT`."""

    operation: Operation
    parents: tuple[int, ...]


@dataclass(frozen=True)
class Composition:
    """Nodes in an order in which parents come first; the last node gives the result."""

    kind: Kind
    nodes: tuple[Node, ...]

    def kind_of(self, index: int) -> Kind:
        """The kind of the value of a node, or of the input."""
        return self.kind if index == INPUT else self.nodes[index].operation.output

    def run(self, value: Value) -> list[Value]:
        """The values of all nodes; raises `OutOfDomainError` where the wording of a step leaves its argument open."""
        return self.rerun(value, ())

    def rerun(self, value: Value, known: Sequence[Value]) -> list[Value]:
        """As `run`, with the values of the first nodes given instead of computed."""
        values = list(known)
        for node in self.nodes[len(values) :]:
            args = [value if parent == INPUT else values[parent] for parent in node.parents]
            if not node.operation.domain(*args):
                raise OutOfDomainError(f"{node.operation.name} got {args!r}")
            values.append(node.operation.function(*args))
        return values

    def call(self, value: Value) -> Value:
        """The result for one input."""
        return self.run(value)[-1]

    @cached_property
    def signature(self) -> str:
        """Hash of the graph of operations: blind to wording and to the order in which branches are listed."""
        digests: list[str] = []
        for node in self.nodes:
            parents = ["input" if parent == INPUT else digests[parent] for parent in node.parents]
            if node.operation.commutative:
                parents.sort()
            text = f"{node.operation.name}({','.join(parents)})"
            digests.append(hashlib.sha256(text.encode()).hexdigest()[:32])
        return digests[-1]

    @property
    def is_chain(self) -> bool:
        """Whether there is neither a fan-out nor a join: every step takes the one before it."""
        return all(node.parents == (index - 1,) for index, node in enumerate(self.nodes))

    def program(self, parameter: str) -> str:
        """The canonical program: one function per step and `task_func`, which composes them."""
        imports: dict[str, None] = {}
        functions = []
        for index, node in enumerate(self.nodes, start=1):
            lines = node.operation.source.split("\n")
            start = next(i for i, line in enumerate(lines) if line.startswith("def step("))
            imports.update(dict.fromkeys(lines[:start]))
            functions.append("\n".join(lines[start:]).replace("def step(", f"def step_{index}(", 1))
        body = [f"def task_func({parameter}):"]
        for index, node in enumerate(self.nodes, start=1):
            arguments = ", ".join(parameter if parent == INPUT else f"value_{parent + 1}" for parent in node.parents)
            body.append(f"    value_{index} = step_{index}({arguments})")
        body.append(f"    return value_{len(self.nodes)}")
        head = "\n".join(imports)
        return "\n\n\n".join(filter(None, [head, *functions, "\n".join(body)])) + "\n"
