"""Growing random compositions by kinds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from random import Random

from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.operation import Kind, Operation

JOIN = 0.8
"""Chance that two loose ends are joined where they need not be yet."""
BRANCH = 0.4
"""Chance that a step leaves an earlier value, or the input, instead of following the step before it."""
REJOIN = 0.25
"""Chance that a step joins any two values, used already or not."""


class Grower:
    """Grows compositions from a set of operations; the seldom used operations are preferred."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._fitting: dict[tuple[Kind, ...], list[Operation]] = defaultdict(list)
        for operation in operations:
            self._fitting[operation.inputs].append(operation)
        self._used: Counter[str] = Counter()

    def count(self, composition: Composition) -> None:
        """Take note that a composition is used."""
        self._used.update(node.operation.name for node in composition.nodes)

    def grow(self, rng: Random, kind: Kind, length: int) -> Composition | None:
        """A composition of `length` distinct operations with one sink, the last; None where this try ends dead."""
        nodes: list[Node] = []
        loose: list[int] = []
        for index in range(length):
            parents = self._parents(rng, kind, nodes, loose, length - index - 1)
            operation = parents and self._operation(rng, nodes, _kinds(kind, nodes, parents))
            if not operation:
                return None
            nodes.append(Node(operation, parents))
            loose = [*(i for i in loose if i not in parents), index]
        return Composition(kind, tuple(nodes)) if len(loose) == 1 else None

    def _parents(
        self, rng: Random, kind: Kind, nodes: Sequence[Node], loose: Sequence[int], steps_after: int
    ) -> tuple[int, ...]:
        """Where the next node's arguments come from; empty if a join is due and no operation joins what is there."""
        last = len(nodes) - 1
        if len(loose) > 1 and (len(loose) > steps_after or rng.random() < JOIN):
            return self._join(rng, kind, nodes, loose)
        if last >= 1 and rng.random() < REJOIN:
            pair = self._join(rng, kind, nodes, range(len(nodes)))
            if pair and len({*loose} - {*pair}) <= steps_after:
                return pair
        if nodes and len(loose) <= steps_after and rng.random() < BRANCH:
            return (rng.choice((INPUT, INPUT, *range(last))),)
        return (last,) if nodes else (INPUT,)

    def _join(self, rng: Random, kind: Kind, nodes: Sequence[Node], ends: Sequence[int]) -> tuple[int, ...]:
        pairs = [pair for pair in combinations(ends, 2) if self._fitting.get(_kinds(kind, nodes, pair))]
        return rng.choice(pairs) if pairs else ()

    def _operation(self, rng: Random, nodes: Sequence[Node], kinds: tuple[Kind, ...]) -> Operation | None:
        taken = {node.operation.name for node in nodes}
        fitting = [operation for operation in self._fitting.get(kinds, ()) if operation.name not in taken]
        if not fitting:
            return None
        one, other = rng.choice(fitting), rng.choice(fitting)
        return one if self._used[one.name] <= self._used[other.name] else other


def _kinds(kind: Kind, nodes: Sequence[Node], parents: Sequence[int]) -> tuple[Kind, ...]:
    return tuple(kind if parent == INPUT else nodes[parent].operation.output for parent in parents)
