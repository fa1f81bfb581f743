"""Further training examples from logged ones: in other words, with branches in another order, with other operations.

A step gets other words only where some logged execution shows which worker does them well: the words are what the
worker reads, so a worker that was right for one wording may be wrong for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import networkx as nx

from orchestai.data.training_file import Targets, TrainingExample
from orchestai.tasks.composition.generate import SPLITS, bucket
from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.operation import Kind, Operation
from orchestai.tasks.composition.operations import OPERATIONS
from orchestai.tasks.composition.probes import probe
from orchestai.tasks.composition.wording import PARAMETERS, word
from orchestai.tasks.examples import clean

SWAPPED = 0.5
"""Share of the steps that become another operation of the same kinds."""
TRIES = 8
"""Times that each example is tried in vain before augmentation gives up."""
_INPUTS = 8
"""Random inputs from which the two visible calls are taken."""


@dataclass(frozen=True)
class Proven:
    """A worker, with its fallbacks, whose answer to some words was part of an execution that was learned from."""

    worker: int
    fallback: tuple[int, ...]


def augment(
    examples: Sequence[TrainingExample],
    count: int,
    *,
    evidence: Iterable[TrainingExample],
    seed: int,
) -> list[TrainingExample]:
    """Up to `count` variations of the training examples; no two instructions are the same, nor equal to a given one.

    Examples of the composition suite are varied, those of other suites and of the validation split are not; no
    variation is a composition of a held-out split of the suite, or of a validation example. Each keeps its example's
    task, split, rewards and, for steps whose words stay, workers.

    Args:
        evidence: examples, better ones first, that show which worker does which words.
    """
    recovered = [(example, found) for example in examples if (found := recover(example))]
    composed = [(example, found) for example, found in recovered if example.split == "train"]
    held_out = {found.signature for example, found in recovered if example.split != "train"}
    proven = _proven(evidence)
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    vain = 0
    while composed and len(added) < count and vain < TRIES * len(composed):
        example, composition = composed[(len(added) + vain) % len(composed)]
        varied_example = _vary(example, composition, proven, held_out, rng)
        if varied_example is None or varied_example.instruction in seen:
            vain += 1
        else:
            seen.add(varied_example.instruction)
            added.append(varied_example)
    return added


def recover(example: TrainingExample) -> Composition | None:
    """The composition that the example's plan describes; None unless every step is of the composition suite."""
    catalogue = _catalogue()
    nodes = []
    for index, (words, parents) in enumerate(
        zip(example.targets.instructions, example.targets.dependencies, strict=True)
    ):
        operation = catalogue.get(clean(words))
        if operation is None or len(operation.inputs) != max(len(parents), 1):
            return None
        if list(parents) != sorted(parents) or any(parent >= index for parent in parents):
            return None
        nodes.append(Node(operation, parents or (INPUT,)))
    kind = nodes[0].operation.inputs[0]
    composition = Composition(kind, tuple(nodes))
    fits = all(tuple(map(composition.kind_of, node.parents)) == node.operation.inputs for node in nodes)
    return composition if fits and len(nodes) > 1 else None


def _vary(
    example: TrainingExample, composition: Composition, proven: dict[str, Proven], held_out: set[str], rng: Random
) -> TrainingExample | None:
    order = _another_order(composition, rng)
    new_place = {old: new for new, old in enumerate(order)} | {INPUT: INPUT}
    operations = _swap([composition.nodes[old].operation for old in order], proven, rng)
    nodes = [
        Node(operation, tuple(sorted(new_place[p] for p in composition.nodes[old].parents)))
        for operation, old in zip(operations, order, strict=True)
    ]
    varied = Composition(composition.kind, tuple(nodes))
    if bucket(varied) not in SPLITS["train"].buckets or varied.signature in held_out:
        return None
    old_words = [clean(example.targets.instructions[old]) for old in order]
    phrasings = [
        rng.choice([p for p in node.operation.phrasings if clean(p.span) == words or clean(p.span) in proven])
        for node, words in zip(nodes, old_words, strict=True)
    ]
    shown = sorted(probe(varied, rng, _INPUTS), key=lambda p: len(repr(p.value)) + len(repr(p.result)))[:2]
    if len(shown) < 2:
        return None
    parameter = rng.choice(PARAMETERS[composition.kind])
    worded = word(varied, phrasings, parameter, [(p.value, p.result) for p in shown], rng)
    words = [clean(worded.text[start:end]) for start, end in worded.spans]
    asked = [
        Proven(example.targets.model_selections[old] or 0, example.targets.fallback[old])
        if new == before
        else proven[new]
        for old, new, before in zip(order, words, old_words, strict=True)
    ]
    targets = Targets(
        model_selections=tuple(choice.worker for choice in asked),
        task_types=tuple(example.targets.task_types[old] for old in order),
        dependencies=tuple(tuple(p for p in node.parents if p != INPUT) for node in nodes),
        spans=worded.spans,
        fallback=tuple(choice.fallback for choice in asked),
        instructions=tuple(words),
    )
    return example.model_copy(update={"instruction": worded.text, "targets": targets, "augmented": True})


def _swap(operations: Sequence[Operation], proven: dict[str, Proven], rng: Random) -> list[Operation]:
    """Some of the operations replaced by others of the same kinds that somebody is known to do; none comes twice."""
    swapped = list(operations)
    for i, operation in enumerate(swapped):
        others = [other for other in _exchangeable(operation.inputs, operation.output) if other not in swapped]
        others = [other for other in others if any(clean(p.span) in proven for p in other.phrasings)]
        if others and rng.random() < SWAPPED:
            swapped[i] = rng.choice(others)
    return swapped


@cache
def _exchangeable(inputs: tuple[Kind, ...], output: Kind) -> list[Operation]:
    return [operation for operation in OPERATIONS if (operation.inputs, operation.output) == (inputs, output)]


def _another_order(composition: Composition, rng: Random) -> list[int]:
    """A random order of the steps that computes the same: parents first, and the arguments of a join in their order."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(composition.nodes)))
    for index, node in enumerate(composition.nodes):
        graph.add_edges_from((parent, index) for parent in node.parents if parent != INPUT)
        if not node.operation.commutative:
            graph.add_edges_from(zip(node.parents, node.parents[1:], strict=False))
    luck = [rng.random() for _ in composition.nodes]
    return list(nx.lexicographical_topological_sort(graph, key=luck.__getitem__))


def _proven(evidence: Iterable[TrainingExample]) -> dict[str, Proven]:
    found: dict[str, Proven] = {}
    for targets in (example.targets for example in evidence):
        for words, worker, fallback in zip(
            targets.instructions, targets.model_selections, targets.fallback, strict=True
        ):
            if worker is not None:
                found.setdefault(clean(words), Proven(worker, fallback))
    return found


@cache
def _catalogue() -> dict[str, Operation]:
    """Operations by the words of a step."""
    return {clean(phrasing.span): operation for operation in OPERATIONS for phrasing in operation.phrasings}
