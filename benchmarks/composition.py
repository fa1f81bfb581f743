"""Counts the composition suite, measures its hidden tests on wrong programs, or writes it to files.

python -m benchmarks.composition [--stats] [--json FILE] [--output FOLDER]
"""

from __future__ import annotations

import ast
import json
import unittest
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from orchestai.storage import artifacts
from orchestai.tasks.composition.generate import OPERATIONS, SPLITS, generate_pairs
from orchestai.tasks.composition.graph import INPUT, Composition, Node, OutOfDomainError
from orchestai.tasks.composition.operation import Operation, Value
from orchestai.tasks.composition.probes import sample
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task
from orchestai.text.syntax import parse_python

EQUIVALENCE_INPUTS = 300
"""Random inputs on which a surviving mutant must agree with the canonical program to count as the same program."""


@dataclass
class KillRate:
    """Counts per sort of mutant; `survivors` names the task and the mutant."""

    killed: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    equivalent: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Share of the mutants that compute something else which at least one hidden test fails."""
        killed, survived = self.killed.total(), self.survived.total()
        return killed / (killed + survived) if killed + survived else 1.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "kill_rate": self.rate,
            "killed": dict(self.killed),
            "survived": dict(self.survived),
            "equivalent": dict(self.equivalent),
            "survivors": self.survivors,
        }


def mutants(composition: Composition, operations: Sequence[Operation]) -> Iterator[tuple[str, Composition]]:
    """Each with its sort: `drop`, `swap`, `replace`, `constant` or `edge`."""
    for index, node in enumerate(composition.nodes):
        for sort, changed in _mutated(composition, index, node, operations):
            nodes = (*composition.nodes[:index], changed, *composition.nodes[index + 1 :])
            yield sort, Composition(composition.kind, nodes)


def _mutated(
    composition: Composition, index: int, node: Node, operations: Sequence[Operation]
) -> Iterator[tuple[str, Node]]:
    operation = node.operation
    names = ("x",) if len(operation.inputs) == 1 else ("a", "b")
    for name, kind in zip(names, operation.inputs, strict=True):
        if kind == operation.output:
            source = f"def step({', '.join(names)}):\n    return {name}"
            yield "drop", replace(node, operation=replace(operation, source=source))
    if len(node.parents) == 2 and operation.inputs[0] == operation.inputs[1]:
        yield "swap", replace(node, parents=node.parents[::-1])
    for other in operations:
        if (other.inputs, other.output) == (operation.inputs, operation.output) and other.name != operation.name:
            yield "replace", replace(node, operation=other)
    for source in _off_by_one(operation.source):
        yield "constant", replace(node, operation=replace(operation, source=source))
    for position, parent in enumerate(node.parents):
        for other_parent in range(INPUT, index):
            if other_parent != parent and composition.kind_of(other_parent) == composition.kind_of(parent):
                parents = (*node.parents[:position], other_parent, *node.parents[position + 1 :])
                yield "edge", replace(node, parents=parents)


def _off_by_one(source: str) -> Iterator[str]:
    """The source with each integer constant in turn one larger and one smaller."""
    count = len(_integers(parse_python(source)))
    for number in range(count):
        for change in (1, -1):
            tree = parse_python(source)
            _integers(tree)[number].value += change
            yield ast.unparse(tree)


def _integers(tree: ast.AST) -> list[Any]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is int]


def measure(pairs: Sequence[tuple[Task, Composition]], operations: Sequence[Operation]) -> KillRate:
    """Run every mutant of every task against the task's hidden tests, in this process (the programs are ours)."""
    found = KillRate()
    for task, composition in pairs:
        inputs = _inputs(composition, Random(task.task_id))
        for sort, mutant in mutants(composition, operations):
            if not passes(task, mutant.program(task.parameters[0])):
                found.killed[sort] += 1
            elif _agree(composition, mutant, inputs):
                found.equivalent[sort] += 1
            else:
                found.survived[sort] += 1
                found.survivors.append(f"{task.task_id}: {sort}: {_summary(mutant)}")
    return found


def passes(task: Task, program: str) -> bool:
    """Whether a trusted program passes all hidden tests of a task."""
    candidate: dict[str, Any] = {}
    exec(program, candidate)
    tests: dict[str, Any] = {"__name__": "tests", task.entry_point: candidate[task.entry_point]}
    exec(task.test, tests)
    result = unittest.TestResult()
    result.failfast = True
    unittest.defaultTestLoader.loadTestsFromTestCase(tests["TestCases"]).run(result)
    return result.testsRun > 0 and result.wasSuccessful()


def _inputs(composition: Composition, rng: Random) -> list[tuple[Value, Value]]:
    """Random inputs on which the composition is defined, with its results."""
    found = []
    for _ in range(EQUIVALENCE_INPUTS):
        value = sample(composition.kind, rng)
        try:
            found.append((value, composition.run(value)[-1]))
        except OutOfDomainError:
            continue
    return found


def _agree(composition: Composition, mutant: Composition, inputs: Sequence[tuple[Value, Value]]) -> bool:
    program: dict[str, Any] = {}
    exec(mutant.program("x"), program)
    for value, result in inputs:
        try:
            if program["task_func"](value) != result:
                return False
        except Exception:  # whatever a wrong program raises, it is not the same program
            return False
    return True


def _summary(mutant: Composition) -> str:
    return "; ".join(f"{node.operation.name}{list(node.parents)}" for node in mutant.nodes)


def count(pairs: Mapping[str, Sequence[tuple[Task, Composition]]], operations: Sequence[Operation]) -> dict[str, Any]:
    """Counts of the catalogue and of each split, and compositions that a split shares with train."""
    train = {composition.signature for _, composition in pairs["train"]}
    return {
        "operations": len(operations),
        "phrasings": sum(len(operation.phrasings) for operation in operations),
        "operations_by_type": dict(Counter(operation.task_type for operation in operations)),
        "splits": {name: _count_split(members) for name, members in pairs.items()},
        "shared_with_train": {
            name: sum(composition.signature in train for _, composition in members)
            for name, members in pairs.items()
            if name != "train"
        },
    }


def _count_split(pairs: Sequence[tuple[Task, Composition]]) -> dict[str, Any]:
    tasks = [task for task, _ in pairs]
    compositions = [composition for _, composition in pairs]
    steps = [node for composition in compositions for node in composition.nodes]
    return {
        "tasks": len(tasks),
        "distinct_compositions": len({composition.signature for composition in compositions}),
        "operations_used": len({node.operation.name for node in steps}),
        "spans_used": len(
            {subtask.instruction for task in tasks if task.reference for subtask in task.reference.subtasks}
        ),
        "tasks_by_steps": dict(sorted(Counter(len(composition.nodes) for composition in compositions).items())),
        "share_not_chains": sum(not composition.is_chain for composition in compositions) / len(compositions),
        "longest_instruction": max(len(task.instruction) for task in tasks),
        "sha256": data_fingerprint(tasks),
    }


def main(
    stats: Annotated[bool, typer.Option("--stats", help="Count the suite and run mutants against its tests.")] = False,
    mutated: Annotated[int, typer.Option(help="Test tasks whose mutants are run.")] = 300,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the counts to this file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write each split to this folder as JSON lines.")] = None,
) -> None:
    """Generate the composition suite from its seed."""
    pairs = {name: generate_pairs(split) for name, split in SPLITS.items()}
    if output is not None:
        for name, members in pairs.items():
            lines = "".join(task.model_dump_json(exclude_defaults=True) + "\n" for task, _ in members)
            artifacts.write_text(output / f"{name}.jsonl", lines)
            typer.echo(f"{len(members)} tasks -> {output / f'{name}.jsonl'}")
    if stats or json_path is not None:
        found = count(pairs, OPERATIONS) | {"mutants": measure(pairs["test"][:mutated], OPERATIONS).to_dict()}
        typer.echo(json.dumps(found, indent=2))
        if json_path is not None:
            artifacts.write_json(json_path, found)


if __name__ == "__main__":
    typer.run(main)
