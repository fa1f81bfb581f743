"""One division of the tasks: the same for every command, whatever the ids, the order, the file and the limit are."""

from __future__ import annotations

import json
from random import Random

import pytest

from orchestai.config import TasksConfig
from orchestai.errors import UserError
from orchestai.tasks.splits import NOTHING_SEEN, PARTS, SeenTasks, TaskSplits, divide, task_hash
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

TEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertTrue(task_func(1))\n"


def tasks(count: int, split: str = "test") -> list[Task]:
    return [
        Task(task_id=f"{split}/{i}", suite="s", split=split, instruct_prompt=f"Add {i} to x ({split}).", test=TEST)
        for i in range(count)
    ]


def parts(some: list[Task], **settings: object) -> dict[str, str]:
    """Instruction -> part, of a suite with one split."""
    splits = TaskSplits(Suite("s", {"test": lambda: some}), TasksConfig.model_validate(settings))
    found = {name: getattr(splits, name) for name in PARTS}
    assert all(task.split == name for name, its in found.items() for task in its)
    return {task.instruction: name for name, its in found.items() for task in its}


def test_a_suite_with_one_split_is_divided_by_the_words_of_its_tasks_alone() -> None:
    whole = tasks(400)
    divided = parts(whole)
    assert len(divided) == 400
    shares = [list(divided.values()).count(part) / 400 for part in PARTS]
    assert shares == pytest.approx([0.64, 0.16, 0.2], abs=0.06)
    other = [
        task.model_copy(update={"task_id": f"other/{i}", "suite": "another"})
        for i, task in enumerate(Random(0).sample(whole, 200))
    ]
    assert parts(other).items() <= divided.items()
    assert {parts(whole, test_fold=fold)[whole[0].instruction] == "test" for fold in range(5)} == {True, False}


def test_the_same_task_under_another_id_is_in_the_same_part() -> None:
    """Else one of them is learned and the other tested."""
    spellings = ["Sort the list x.", "sort the  LIST `x`", "Sort the list: x\n"]
    assert len({task_hash(text) for text in spellings}) == 1
    others = [f"Reverse list {i}" for i in range(300)]
    divided = divide([*others, *spellings, *others[:100]], TasksConfig())
    assert len(set(divided[300:303])) == 1
    assert divided[303:] == divided[:100]
    assert task_hash("Sort the list y.") != task_hash(spellings[0])


def test_splits_of_a_suite_stand_and_what_is_missing_is_taken_from_what_is_learned() -> None:
    own = {name: tasks(50, name) for name in ("train", "validation", "test", "longer")}
    suite = Suite("s", {name: lambda its=its: its for name, its in own.items()})
    splits = TaskSplits(suite, TasksConfig())
    assert [splits.train, splits.validation, splits.test] == [own["train"], own["validation"], own["test"]]
    assert not splits.describe()

    half = TaskSplits(Suite("s", {name: lambda its=own[name]: its for name in ("train", "test")}), TasksConfig())
    assert half.test == own["test"]
    assert 0 < len(half.validation) < len(half.train)
    assert len(half.validation) + len(half.train) == 50
    assert "s has no validation split of its own" in half.describe()

    longer = TaskSplits(suite, TasksConfig(eval_split="longer"))
    assert longer.test == own["longer"]
    with pytest.raises(UserError, match="no split 'trian'; it has train, validation, test, longer"):
        TaskSplits(suite, TasksConfig(split="trian"))


def test_what_weights_have_seen_adds_up_over_phases_and_survives_a_file() -> None:
    first = SeenTasks.of(["Add one.", "Add two."], ["Add three."])
    both = first | SeenTasks.of(["Add three."], ["Add four."])
    assert [both.has_learned(f"add {word}") for word in ("one", "two", "three", "four", "five")] == [1, 1, 1, 0, 0]
    assert [f"add {word}" in both for word in ("one", "four", "five")] == [True, True, False]
    assert SeenTasks.of_checkpoint(json.loads(json.dumps(both.facts()))) == both
    unknown = SeenTasks.of_checkpoint({"epoch": 3})
    assert not unknown.complete
    assert not (unknown | first).complete
    assert (unknown | first).learned == first.learned
    assert NOTHING_SEEN.complete
