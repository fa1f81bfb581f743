"""The suite's steps by their words: which operation a plan's step is, and what other tasks a plan can be made into."""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from random import Random

import networkx as nx

from orchestai.tasks.composition.generate import OPERATIONS, SPLITS, bucket
from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.instructions import PARAMETERS, word
from orchestai.tasks.composition.operation import Operation
from orchestai.tasks.composition.probes import probe
from orchestai.tasks.suite import Variation
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow

SWAPPED = 0.5
"""Share of the steps that become another operation of the same kinds."""
_INPUTS = 8
"""Random inputs from which the two visible calls are taken."""


def canonical(plan: Workflow) -> dict[str, str] | None:
    """See `StepCatalog.canonical`."""
    catalog = _catalog()
    operations = {subtask.id: catalog.get(clean(subtask.instruction)) for subtask in plan.subtasks}
    sources = {id: operation.source for id, operation in operations.items() if operation is not None}
    return sources if len(sources) == len(plan) else None


def signature(plan: Workflow) -> str | None:
    """See `StepCatalog.signature`."""
    composition = recover(plan)
    return None if composition is None else composition.signature


def vary(plan: Workflow, usable: Container[str], held_out: Container[str], rng: Random) -> Variation | None:
    """See `StepCatalog.vary`; branches change places, and some steps become other operations of the same kinds."""
    composition = recover(plan)
    if composition is None:
        return None
    graph = nx.DiGraph()  # of steps that compute the same in any order of it: the arguments of a join keep theirs
    graph.add_nodes_from(range(len(composition.nodes)))
    for index, node in enumerate(composition.nodes):
        graph.add_edges_from((parent, index) for parent in node.parents if parent != INPUT)
        if not node.operation.commutative:
            graph.add_edges_from(zip(node.parents, node.parents[1:], strict=False))
    luck = [rng.random() for _ in composition.nodes]
    order = list(nx.lexicographical_topological_sort(graph, key=luck.__getitem__))
    new_place = {old: new for new, old in enumerate(order)} | {INPUT: INPUT}
    operations = [composition.nodes[old].operation for old in order]
    for i, one in enumerate(operations):
        kinds = one.inputs, one.output
        others = [other for other in OPERATIONS if (other.inputs, other.output) == kinds and other not in operations]
        others = [other for other in others if any(clean(p.span) in usable for p in other.phrasings)]
        if others and rng.random() < SWAPPED:
            operations[i] = rng.choice(others)
    nodes = [
        Node(operation, tuple(sorted(new_place[p] for p in composition.nodes[old].parents)))
        for operation, old in zip(operations, order, strict=True)
    ]
    varied = Composition(composition.kind, tuple(nodes))
    if bucket(varied) not in SPLITS["train"].buckets or varied.signature in held_out:
        return None
    old_words = [clean(plan.subtasks[old].instruction) for old in order]
    phrasings = [
        rng.choice([p for p in node.operation.phrasings if clean(p.span) == words or clean(p.span) in usable])
        for node, words in zip(nodes, old_words, strict=True)
    ]
    shown = sorted(probe(varied, rng, _INPUTS), key=lambda p: len(repr(p.value)) + len(repr(p.result)))[:2]
    if len(shown) < 2:
        return None
    parameter = rng.choice(PARAMETERS[composition.kind])
    worded = word(varied, phrasings, parameter, [(p.value, p.result) for p in shown], rng)
    subtasks = [
        Subtask(
            id=str(i + 1),
            instruction=clean(worded.text[slice(*span)]),
            depends_on=tuple(str(p + 1) for p in node.parents if p != INPUT),
            span=span,
        )
        for i, (node, span) in enumerate(zip(nodes, worded.spans, strict=True))
    ]
    return Variation(worded.text, Workflow(subtasks), tuple(order))


def recover(plan: Workflow) -> Composition | None:
    """The composition that a plan describes; None unless every step is of this suite."""
    catalog = _catalog()
    nodes = []
    for index, (subtask, parents) in enumerate(zip(plan.subtasks, plan.dependencies(), strict=True)):
        operation = catalog.get(clean(subtask.instruction))
        if operation is None or len(operation.inputs) != max(len(parents), 1):
            return None
        if parents != sorted(parents) or any(parent >= index for parent in parents):
            return None
        nodes.append(Node(operation, tuple(parents) or (INPUT,)))
    kind = nodes[0].operation.inputs[0]
    composition = Composition(kind, tuple(nodes))
    fits = all(tuple(map(composition.kind_of, node.parents)) == node.operation.inputs for node in nodes)
    return composition if fits and len(nodes) > 1 else None


@cache
def _catalog() -> dict[str, Operation]:
    """Operations by the words of a step."""
    return {clean(phrasing.span): operation for operation in OPERATIONS for phrasing in operation.phrasings}
