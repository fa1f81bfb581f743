"""The embedded suite is what everything is measured on: its references are exact, its tests sharp, its splits apart."""

from __future__ import annotations

import copy
import json
from collections import Counter
from random import Random

import pytest

from benchmarks import composition as command
from benchmarks.composition import measure, mutants, passes
from orchestai.tasks import data_fingerprint, load_suite
from orchestai.tasks.composition.generate import BY_NAME, OPERATIONS, SPLITS, generate_pairs
from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.probes import sample
from orchestai.tasks.visible_examples import clean, parse_calls


@pytest.fixture(scope="module")
def splits():
    return {name: generate_pairs(split) for name, split in SPLITS.items()}


def test_the_catalogue_is_large_and_varied():
    assert len(OPERATIONS) >= 48
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    types = Counter(operation.task_type for operation in OPERATIONS)
    assert set(types) == {"string", "list", "integer", "dict", "date", "combine"}
    assert types["combine"] >= 12
    assert all(len(operation.phrasings) >= 4 for operation in OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_operations_compute_values_of_their_kind(operation):
    """Results have the declared kind, the same arguments give the same result, and arguments are left alone."""
    rng = Random(operation.name)
    kinds = {"str": str, "int": int, "ints": list, "words": list, "dict": dict, "date": str}
    for _ in range(30):
        args = [sample(kind, rng) for kind in operation.inputs]
        if operation.domain(*args):
            before = copy.deepcopy(args)
            result = operation.function(*args)
            assert type(result) is kinds[operation.output]
            assert args == before
            assert operation.function(*args) == result
            if operation.commutative:
                assert operation.function(*args[::-1]) == result


def test_no_composition_is_in_two_splits(splits):
    """Apart by composition, whatever the wording and the order of branches."""
    seen: set[str] = set()
    for pairs in splits.values():
        signatures = [composition.signature for _, composition in pairs]
        assert len(set(signatures)) == len(signatures)
        assert seen.isdisjoint(signatures)
        seen.update(signatures)


def test_train_shows_every_operation_in_every_wording(splits):
    spans = {subtask.instruction for task, _ in splits["train"] for subtask in task.reference.subtasks}
    assert spans == {phrasing.span for operation in OPERATIONS for phrasing in operation.phrasings}


def test_references_are_exact(splits):
    """Each step's span is its instruction, types and edges are those of the composition, and the last is the sink."""
    for task, composition in [pair for pairs in splits.values() for pair in pairs[:60]]:
        workflow = task.reference
        assert [subtask.id for subtask in workflow.sinks()] == [str(len(workflow))]
        for subtask, node in zip(workflow.subtasks, composition.nodes, strict=True):
            start, end = subtask.span
            assert task.instruction[start:end] == subtask.instruction == clean(subtask.instruction)
            assert subtask.task_type == node.operation.task_type
            assert subtask.depends_on == tuple(str(parent + 1) for parent in node.parents if parent != INPUT)
            assert list(node.parents) == sorted(node.parents)


def test_visible_calls_are_read_true_and_not_among_the_hidden_tests(splits):
    for task, composition in splits["validation"][:80]:
        calls = parse_calls(task.instruction, task.entry_point)
        assert len(calls) == 2
        for call in calls:
            (argument,) = (eval(source, {}) for source in call.args)
            assert composition.call(argument) == eval(call.result, {})
            assert f"task_func({call.args[0]})" not in task.test


def test_canonical_programs_pass_and_one_step_less_fails(splits):
    for task, composition in splits["test"][:60]:
        assert task.test.count("    def test_") >= 6
        assert passes(task, task.canonical_solution)
        shorter = Composition(composition.kind, composition.nodes[:-1])
        assert not passes(task, shorter.program(task.parameters[0]))


def test_hidden_tests_kill_mutants(splits):
    found = measure(splits["test"][::16], OPERATIONS)
    assert found.killed.total() > 300
    assert found.rate > 0.97


def test_mutants_are_told_equivalent_by_behaviour():
    """Swapping the arguments of an addition is the same program, which must not count as a survivor."""
    nodes = (
        Node(BY_NAME["text_length"], (INPUT,)),
        Node(BY_NAME["count_vowels"], (INPUT,)),
        Node(BY_NAME["add"], (0, 1)),
    )
    sorts = Counter(sort for sort, _ in mutants(Composition("str", nodes), OPERATIONS))
    assert sorts["swap"] == 1
    assert sorts["edge"] == 2
    assert sorts["drop"] == 2


def test_the_suite_is_the_same_every_time():
    """Recordings and reported figures belong to these very tasks."""
    one, other = load_suite("composition"), load_suite("composition")
    assert data_fingerprint(one.split("validation")) == data_fingerprint(other.split("validation"))
    assert data_fingerprint(one.split("validation")) != data_fingerprint(one.split("longer"))


def test_the_command_counts_the_suite_and_writes_its_splits(tmp_path, capsys, splits, monkeypatch):
    """`python -m benchmarks.composition --stats --output FOLDER`, as the suite's page says."""
    monkeypatch.setattr(command, "generate_pairs", lambda split: splits[split.name])
    command.main(stats=True, mutated=1, json_path=tmp_path / "counts.json", output=tmp_path / "suite")
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert set(counts["shared_with_train"].values()) == {0}
    assert counts["mutants"]["kill_rate"] == 1.0
    assert '"kill_rate": 1.0' in capsys.readouterr().out
    written = {file.stem: len(file.read_text().splitlines()) for file in (tmp_path / "suite").iterdir()}
    assert written == {name: len(pairs) for name, pairs in splits.items()}
