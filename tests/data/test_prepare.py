"""From logs to training data: what is kept, what it says, and that rewordings stay true."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from orchestai.config import Config, load_config
from orchestai.data.augment import augment
from orchestai.data.prepare import prepare
from orchestai.data.training_file import (
    TrainingExample,
    load_training_data,
    logged_reference,
    meta_path,
)
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.execution.reward import Reference
from orchestai.outcome import Scored
from orchestai.planner.checkpoint import estimate_from, read_estimate
from orchestai.planner.files import estimate_path
from orchestai.tasks.composition.generate import OPERATIONS, SPLITS, generate, generate_pairs
from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.instructions import word
from orchestai.tasks.composition.steps import recover
from orchestai.tasks.instructions import STYLES
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Workflow

CONFIG = """
planner: {task_types: [string, list, integer, dict, date, combine], max_subtasks: 5}
workers:
  pool:
    cheap: {kind: tool, tool: texts, card: cheap}
    middle: {kind: tool, tool: texts, card: middle}
    strong: {kind: tool, tool: texts, card: strong}
training: {phase1_supervised: {synthetic_augmentations: 0}}
"""
AUGMENTATIONS = "training.phase1_supervised.synthetic_augmentations"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def config(config_file: Path) -> Config:
    return load_config(config_file)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    split = SPLITS["train"]
    return generate(type(split)("train", 40, split.lengths, split.buckets))


def record(
    task: Task,
    *,
    workers: Sequence[str] = ("cheap", "middle", "strong"),
    answered: int = 0,
    passed: int = 8,
    cost: float = 1.0,
    latency: float = 10.0,
) -> ExecutionRecord:
    """The reference plan run on `workers`, of which number `answered` was the first whose answer held."""
    assigned = {"worker": workers[0], "fallback": tuple(workers[1:])}
    workflow = reference(task).replace({subtask.id: assigned for subtask in reference(task).subtasks})
    attempts = tuple(Attempt(worker=name, passed_check=i == answered) for i, name in enumerate(workers[: answered + 1]))
    execution = JudgedExecution(
        task_id=task.task_id,
        workflow=workflow,
        results=tuple(
            SubtaskResult(id=subtask.id, status="done", attempts=attempts, kept=answered)
            for subtask in workflow.subtasks
        ),
        outcome=Scored(passed / 8),
        tests_passed=passed,
        tests_total=8,
        total_cost=cost,
        total_latency_ms=latency,
    )
    return ExecutionRecord.from_execution(execution, task, planner="reference", pool=("cheap", "middle", "strong"))


def reference(task: Task) -> Workflow:
    assert task.reference is not None
    return task.reference


def write(directory: Path, records: Sequence[ExecutionRecord]) -> Path:
    log = ExecutionLog(directory)
    for one in records:
        log.append(one)
    return directory


def test_the_best_execution_is_kept_and_the_rest_counted(tmp_path: Path, tasks: list[Task], config: Config) -> None:
    """Passes all tests, then cheapest, then fastest; what is left out is reported with its reason."""
    first, second, third = tasks[:3]
    unscorable, unjudged = (
        record(third, cost=0.1).model_copy(update={"outcome": outcome, "score": None, "success": True})
        for outcome in ("unscorable", "unjudged")
    )
    logs = write(
        tmp_path / "logs",
        [
            record(first, passed=7, cost=0.1),
            record(first, cost=3.0, latency=1.0),
            record(first, cost=2.0, latency=9.0),
            record(first, cost=2.0, latency=5.0),
            record(second, passed=0),
            unscorable,
            unjudged,
            record(third),
        ],
    )
    report = prepare(logs, config, tmp_path / "data.json")
    examples = load_training_data(tmp_path / "data.json", config)
    assert {example.task_id for example in examples} == {first.task_id, third.task_id}
    kept = next(example for example in examples if example.task_id == first.task_id)
    assert (kept.rewards.success, kept.rewards.cost, kept.rewards.latency) == (1.0, -2.0, -0.005)
    assert (report.executions, report.tasks, report.kept) == (8, 3, 2)
    assert report.dropped == {
        "no full score, or no plan": 2,
        "a better execution of the same task was kept": 2,
        "unscorable": 1,
        "nobody has judged it": 1,
    }


def test_the_training_file_says_what_executions_typically_cost(
    tmp_path: Path, tasks: list[Task], config: Config
) -> None:
    """Of those that ran: an invalid plan costs nothing, and an unscorable one may have stopped half-way."""
    first, second = tasks[:2]
    lost = record(second, cost=9.0).model_copy(update={"outcome": "unscorable", "score": None, "success": False})
    invalid = ExecutionRecord.from_failed_plan("no steps", second, planner="p", pool=("cheap", "middle", "strong"))
    ran = [record(first, cost=cost, latency=10 * cost, passed=8) for cost in (1.0, 2.0, 4.0)]
    prepare(write(tmp_path / "logs", [*ran, invalid, lost, record(second)]), config, tmp_path / "data.json")
    found = logged_reference(tmp_path / "data.json")
    assert found == Reference(1.5, 15.0, "median of 4 logged executions")
    meta_path(tmp_path / "data.json").unlink()
    assert logged_reference(tmp_path / "data.json") is None


def test_targets_have_hindsight_and_exact_spans(tmp_path: Path, tasks: list[Task], config: Config) -> None:
    """The worker whose answer held is the target; those still to be asked are its fallback."""
    task = next(task for task in tasks if len(reference(task)) > 2)
    prepare(write(tmp_path / "logs", [record(task, answered=1)]), config, tmp_path / "data.json")
    (example,) = json.loads((tmp_path / "data.json").read_text())
    targets, plan, workflow = example["targets"], reference(task), Workflow(**example["workflow"])
    assert targets["model_selections"] == [1] * len(plan)
    assert [subtask.workers for subtask in workflow.subtasks] == [("middle", "strong")] * len(plan)
    assert targets["dependencies"] == workflow.dependencies() == plan.dependencies()
    types = config.planner.task_types
    assert [types[i] for i in targets["task_types"]] == [subtask.task_type for subtask in plan.subtasks]
    assert [subtask.task_type for subtask in workflow.subtasks] == [subtask.task_type for subtask in plan.subtasks]
    words = [example["instruction"][slice(*subtask.span)] for subtask in workflow.subtasks]
    assert words == [subtask.instruction for subtask in workflow.subtasks]
    assert words == [subtask.instruction for subtask in plan.subtasks]


def test_validation_is_a_share_of_tasks_that_stays_as_the_log_grows(
    tmp_path: Path, tasks: list[Task], config: Config
) -> None:
    def splits(count: int) -> dict[str, str]:
        logs = write(tmp_path / f"logs{count}", [record(task) for task in tasks[:count]])
        prepare(logs, config, tmp_path / "data.json")
        return {example.task_id: example.split for example in load_training_data(tmp_path / "data.json", config)}

    few, many = splits(30), splits(40)
    assert few.items() <= many.items()
    held_out = {name for name, split in many.items() if split == "validation"}
    assert 0 < len(held_out) < 16
    asked = [record(task, workers=("strong" if task.task_id in held_out else "cheap",)) for task in tasks[:40]]
    prepare(write(tmp_path / "logs", asked), config, tmp_path / "data.json")
    estimate = estimate_from(read_estimate(estimate_path(tmp_path / "data.json")), "data.json")
    assert not estimate.asked[:, list(estimate.workers).index("strong")].any(), "a target's worth was seen before"


def test_augmentations_are_new_true_and_only_of_training_tasks(
    tmp_path: Path, tasks: list[Task], config_file: Path
) -> None:
    """Each says a composition of the train split: its visible calls are computed anew, its spans are whole wordings."""
    config = load_config(config_file, [f"{AUGMENTATIONS}=150"])
    report = prepare(write(tmp_path / "logs", [record(task) for task in tasks]), config, tmp_path / "data.json")
    examples = load_training_data(tmp_path / "data.json", config)
    assert report.augmented == 150
    assert len({example.instruction for example in examples}) == len(examples) == report.kept + 150
    split_of = {example.task_id: example.split for example in examples if not example.augmented}
    original = {example.task_id: signature(example) for example in examples if not example.augmented}
    held_out = {pair[1].signature for split in ("validation", "test") for pair in generate_pairs(SPLITS[split])}
    held_out |= {signature(example) for example in examples if example.split != "train"}
    same = 0
    phrases = {phrasing.span for operation in OPERATIONS for phrasing in operation.phrasings}
    for example in examples:
        if example.augmented:
            assert example.split == split_of[example.task_id] == "train"
            spans = [example.instruction[slice(*span)] for span in example.spans]
            assert set(spans) <= phrases
            assert list(map(clean, spans)) == [subtask.instruction for subtask in example.workflow.subtasks]
            assert signature(example) not in held_out
            same += signature(example) == original[example.task_id]
    assert 0 < same < 150, "some keep their operations, others do not"


def test_branches_change_places_with_all_that_belongs_to_them() -> None:
    """Two branches that meet in a step without an order of its arguments may be told in either order."""
    unary = [op for op in OPERATIONS if op.inputs == ("int",) and op.output == "int"][:2]
    join = next(op for op in OPERATIONS if op.commutative and op.inputs == ("int", "int"))
    composition = Composition("int", (Node(unary[0], (INPUT,)), Node(unary[1], (INPUT,)), Node(join, (0, 1))))
    phrasings = [node.operation.phrasings[0] for node in composition.nodes]
    worded = word(composition, phrasings, "n", [(2, 0), (3, 0)], Random(0))
    subtasks = [
        {
            "id": str(i),
            "instruction": phrasing.span,
            "task_type": f"type {i}",
            "worker": f"worker {i}",
            "fallback": (f"fallback of {i}",),
            "depends_on": ("0", "1") if i == 2 else (),
            "span": span,
        }
        for i, (phrasing, span) in enumerate(zip(phrasings, worded.spans, strict=True))
    ]
    example = TrainingExample(instruction=worded.text, workflow=Workflow(subtasks))
    seen = set()
    for other in augment([example], 20, evidence=[example], seed=0):
        varied = other.workflow.subtasks
        first = [subtask.instruction for subtask in varied].index(clean(phrasings[0].span))
        seen.add(first)
        place = {0: first, 1: 1 - first, 2: 2}
        assert other.workflow.dependencies() == [[], [], [0, 1]]
        assert [varied[place[i]].worker for i in range(3)] == [f"worker {i}" for i in range(3)]
        assert [varied[place[i]].task_type for i in range(3)] == [f"type {i}" for i in range(3)]
        assert [varied[place[i]].fallback for i in range(3)] == [(f"fallback of {i}",) for i in range(3)]
        words = [other.instruction[slice(*subtask.span)] for subtask in varied if subtask.span]
        assert [words[place[i]] for i in range(3)] == [phrasing.span for phrasing in phrasings]
    assert seen == {0, 1}


def signature(example: TrainingExample) -> str:
    composition = recover(example.workflow)
    assert composition is not None
    return composition.signature


def test_the_log_says_what_is_for_validation_and_nothing_is_taken_from_tasks_for_tests(
    tmp_path: Path, tasks: list[Task], config_file: Path
) -> None:
    """Not even which worker does a wording well, for augmentation; nor does the estimate learn from what is for
    validation, whose targets it names."""
    parts = ["train"] * 20 + ["validation"] * 10 + ["test"] * 6 + ["longer"] * 4
    marked = [task.model_copy(update={"split": part}) for task, part in zip(tasks, parts, strict=True)]
    config = load_config(config_file, [f"{AUGMENTATIONS}=100"])
    for_tests = [record(task, workers=("strong",)) for task in marked[20:]]
    logs = write(tmp_path / "logs", [*(record(task) for task in marked[:20]), *for_tests])
    report = prepare(logs, config, tmp_path / "data.json")
    examples = load_training_data(tmp_path / "data.json", config)
    written = {example.task_id: example.split for example in examples if not example.augmented}
    assert written == {task.task_id: task.split for task in marked[:30]}
    assert report.dropped == {"the task is kept for tests": 10}
    assert report.augmented
    assert {s.worker for e in examples if e.split == "train" for s in e.workflow.subtasks} == {"cheap"}
    estimate = estimate_from(read_estimate(estimate_path(tmp_path / "data.json")), "data.json")
    assert dict(zip(estimate.workers, estimate.asked.sum(0) > 0, strict=True)) == {
        "cheap": True,
        "middle": False,
        "strong": False,
    }


def test_a_mixture_teaches_more_wordings_and_keeps_what_is_for_tests_out(
    tasks: list[Task], config_file: Path, tmp_path: Path
) -> None:
    """Planners that read one suite alone understand no other wording."""
    config = load_config(config_file, ["training.phase1_supervised.mixture=[instructions]"])
    log = write(tmp_path, [record(task) for task in tasks])
    report = prepare(log, config, tmp_path / "data.json")
    examples = load_training_data(tmp_path / "data.json", config)
    beside = [example for example in examples if example.suite == "instructions"]
    assert len(beside) == report.mixture > 2000
    assert {example.split for example in beside} == {"train", "validation"}
    assert not {example.task_id.split("/")[0] for example in beside} & set(STYLES["test"])
    assert not any(subtask.worker for example in beside for subtask in example.workflow.subtasks)
