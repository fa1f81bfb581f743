"""The composition suite from its seed: compositions, wordings, visible examples and hidden tests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from random import Random
from typing import get_args

from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.instructions import PARAMETERS, Worded, word
from orchestai.tasks.composition.operation import EVERY, Kind, Operation, Phrasing
from orchestai.tasks.composition.probes import Probe, matters, probe
from orchestai.tasks.records import read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow

OPERATIONS: tuple[Operation, ...] = EVERY
BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}


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


SEED = 20
HIDDEN_TESTS = 8
LONGEST_SHOWN = 90
"""Characters of a visible call and its result together."""


@dataclass(frozen=True)
class Split:
    """How many tasks, of how many steps (each length with its weight), from which buckets of compositions."""

    name: str
    size: int
    lengths: dict[int, int]
    buckets: range


_LENGTHS = {2: 3, 3: 6, 4: 6, 5: 5}
BUCKETS = 10
SPLITS: dict[str, Split] = {
    split.name: split
    for split in (
        Split("train", 2400, _LENGTHS, range(3, BUCKETS)),
        Split("validation", 240, _LENGTHS, range(0, 1)),
        Split("test", 300, _LENGTHS, range(1, 3)),
        Split("longer", 160, {6: 1}, range(BUCKETS)),
    )
}
"""A composition's bucket is a hash of its graph, so no composition is in two splits; `longer` differs by length."""


def bucket(composition: Composition) -> int:
    return int(composition.signature[:8], 16) % BUCKETS


def generate(split: Split, operations: Sequence[Operation] = OPERATIONS, seed: int = SEED) -> list[Task]:
    """The tasks of a split; the same every time, whichever other splits are generated."""
    return [task for task, _ in generate_pairs(split, operations, seed)]


def generate_pairs(
    split: Split, operations: Sequence[Operation] = OPERATIONS, seed: int = SEED
) -> list[tuple[Task, Composition]]:
    """As `generate`, each task with its composition."""
    rng = Random(f"{seed}/{split.name}")
    phrases = _Phrases(operations, rng)
    pairs: list[tuple[Task, Composition]] = []
    found = compositions(split, operations, rng)
    while len(pairs) < split.size:
        composition, probes = next(found)
        task = _task(f"composition/{split.name}/{len(pairs)}", split.name, composition, phrases, probes, rng)
        if task is not None:
            pairs.append((task, composition))
    return pairs


def compositions(
    split: Split, operations: Sequence[Operation], rng: Random
) -> Iterator[tuple[Composition, list[Probe]]]:
    """Endless distinct compositions of a split, each with inputs on which all of its steps are defined."""
    grower = Grower(operations)
    seen: set[str] = set()
    kinds: tuple[Kind, ...] = get_args(Kind)
    lengths = [length for length, weight in split.lengths.items() for _ in range(weight)]
    length = rng.choice(lengths)
    while True:
        composition = grower.grow(rng, rng.choice(kinds), length)
        if composition is None or composition.signature in seen or bucket(composition) not in split.buckets:
            continue
        probes = probe(composition, rng)
        if matters(composition, probes):
            seen.add(composition.signature)
            grower.count(composition)
            yield composition, probes
            length = rng.choice(lengths)


class _Phrases:
    """Deals out the phrasings of each operation in turn, so that all are used about equally often."""

    def __init__(self, operations: Sequence[Operation], rng: Random) -> None:
        self._next = {operation.name: rng.randrange(len(operation.phrasings)) for operation in operations}

    def deal(self, operation: Operation) -> Phrasing:
        index = self._next[operation.name]
        self._next[operation.name] = (index + 1) % len(operation.phrasings)
        return operation.phrasings[index]


def _task(
    task_id: str, split: str, composition: Composition, phrases: _Phrases, probes: Sequence[Probe], rng: Random
) -> Task | None:
    """None where the probes are too few for the visible calls and the hidden tests."""
    short = [p for p in probes if len(repr(p.value)) + len(repr(p.result)) <= LONGEST_SHOWN]
    calls = _diverse(short, 2)
    hidden = _diverse([p for p in probes if p not in calls], HIDDEN_TESTS)
    if len(calls) < 2 or len(hidden) < HIDDEN_TESTS:
        return None
    parameter = rng.choice(PARAMETERS[composition.kind])
    phrasings = [phrases.deal(node.operation) for node in composition.nodes]
    worded = word(composition, phrasings, parameter, [(p.value, p.result) for p in calls], rng)
    return Task(
        task_id=task_id,
        suite="composition",
        split=split,
        instruct_prompt=worded.text,
        code_prompt=f"def task_func({parameter}):\n",
        canonical_solution=composition.program(parameter),
        test=_tests(hidden),
        entry_point="task_func",
        parameters=(parameter,),
        isolation="sealed",
        reference=_reference(composition, worded),
        source="generated by orchestai.tasks.composition, Apache-2.0",
    )


def _diverse(probes: Sequence[Probe], count: int) -> list[Probe]:
    """Up to `count` probes, those first whose result no probe before them has."""
    fresh: dict[str, Probe] = {}
    for p in probes:
        fresh.setdefault(repr(p.result), p)
    first = list(fresh.values())
    return [*first, *(p for p in probes if p not in first)][:count]


def _tests(hidden: Sequence[Probe]) -> str:
    methods = (
        f"    def test_{number}(self):\n        self.assertEqual(task_func({p.value!r}), {p.result!r})\n"
        for number, p in enumerate(hidden, start=1)
    )
    return "import unittest\n\n\nclass TestCases(unittest.TestCase):\n" + "\n".join(methods)


def _reference(composition: Composition, worded: Worded) -> Workflow:
    return Workflow(
        [
            Subtask(
                id=str(index + 1),
                instruction=worded.text[start:end],
                task_type=node.operation.task_type,
                depends_on=tuple(str(parent + 1) for parent in node.parents if parent >= 0),
                span=(start, end),
            )
            for index, (node, (start, end)) in enumerate(zip(composition.nodes, worded.spans, strict=True))
        ]
    )


def load(path: str | None = None) -> Suite:
    """Generated from the seed, split by split, once per process; or read from a file, as `--output` writes them."""
    if path is None:
        return _generated()

    @cache
    def tasks() -> list[Task]:
        return to_tasks(read_records(path, "train"), lambda record: Task(**record))

    def split(name: str) -> list[Task]:
        return [task for task in tasks() if task.split == name]

    return Suite("composition", {name: partial(split, name) for name in SPLITS})


@cache
def _generated() -> Suite:
    return Suite("composition", {name: partial(generate, split) for name, split in SPLITS.items()})
