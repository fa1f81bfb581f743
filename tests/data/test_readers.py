"""Plans that others wrote arrive whole, keyed by id, with license, and no task is on two sides."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config
from orchestai.data.prepare_plans import prepare_plans
from orchestai.data.readers import READERS, SourcePlan, UnusablePlanError, find_reader
from orchestai.data.training_file import load_training_data
from support.repository import REPOSITORY
from support.training.plan_files import BREAK, only, write

POOL = {"calculator": {"kind": "tool", "tool": "calculator", "card": "Adds."}}
CONFIG = Config(workers={"pool": POOL}, planner={"max_subtasks": 20})

WORFBENCH = {
    "source": "wikihow",
    "id": "wikihow_7",
    "conversations": [
        {"role": "system", "content": "You are a helpful task planner."},
        {"role": "user", "content": "Task: How to Make Tea\nThe action list you can take: ['Boil water.\\n']"},
        {
            "role": "assistant",
            "content": "Node:\n1: Boil water.\n2: Take a cup.\n3: Take a cup.\n"
            "Edges: (START,1) (START, 2) (1,3) (2,3) (3,END)",
        },
    ],
}
ASYNCHOW = {
    "titles": "How to Make Tea",
    "steps": ["Boil water ", "Take a cup", "Pour"],
    "edge_list": [["1", "3"], ["2", "3"], ["START", "1"], ["START", "2"], ["3", "END"]],
}


def test_worfbench(tmp_path):
    write(tmp_path / "wikihow.json.gz", [WORFBENCH])
    plan = only("worfbench", tmp_path)
    assert (plan.id, plan.source, plan.licence, plan.task) == ("wikihow_7", "wikihow", "MIT", "How to Make Tea")
    assert [(s.id, s.words) for s in plan.steps] == [("1", "Boil water."), ("2", "Take a cup."), ("3", "Take a cup.")]
    assert plan.edges == {("1", "3"), ("2", "3")}


def test_asynchow(tmp_path):
    write(tmp_path / "async_benchmark.jsonl.gz", [ASYNCHOW])
    plan = only("asynchow", tmp_path)
    assert plan.source == "asynchow"
    example = plan.example()
    assert example.instruction == "How to Make Tea"
    assert [step.instruction for step in example.workflow.subtasks] == ["Boil water", "Take a cup", "Pour"]
    assert sorted(example.workflow.edges()) == [("1", "3"), ("2", "3")]
    assert example.rewards is None
    assert not any(subtask.worker or subtask.task_type for subtask in example.workflow.subtasks)


def test_own_plans_and_prepared_examples(tmp_path):
    own = {
        "instruction": "make tea",
        "subtasks": [{"id": "w", "instruction": "boil"}, {"id": "p", "instruction": "pour", "depends_on": ["w"]}],
        "licence": "CC0",
    }
    write(tmp_path / "own.json", [own])
    plan = only("orchestai", tmp_path / "own.json")
    assert (plan.source, plan.licence, plan.edges) == ("own", "CC0", {("w", "p")})
    prepare_plans(READERS["orchestai"], [tmp_path / "own.json"], CONFIG, tmp_path / "a.json")
    prepare_plans(READERS["orchestai"], [tmp_path / "a.json"], CONFIG, tmp_path / "b.json")
    assert load_training_data(tmp_path / "a.json", CONFIG) == load_training_data(tmp_path / "b.json", CONFIG)


def test_the_command_writes_examples_and_counts_what_it_left_out(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"workers": {"pool": POOL}}))
    torn = {**WORFBENCH, "conversations": [*WORFBENCH["conversations"][:2], {"role": "assistant", "content": "Hm."}]}
    write(tmp_path / "wikihow.json", [WORFBENCH, WORFBENCH, torn])
    output = tmp_path / "out.json"
    arguments = ["prepare", "--from", "worfbench", str(tmp_path / "wikihow.json"), "--config", str(config)]
    result = CliRunner().invoke(app, [*arguments, "--output", str(output), "planner.max_subtasks=3"])
    assert result.exit_code == 0, result.output
    [example] = json.loads(output.read_text())
    assert (example["suite"], example["licence"]) == ("wikihow", "MIT")
    dropped = json.loads(output.with_suffix(".meta.json").read_text())["dropped"]
    assert dropped == {"the same plan for the same task": 1, "no list of nodes before the edges": 1}


@pytest.mark.parametrize(
    ("name", "folder", "fewest"),
    [("worfbench", "worfbench", 1400), ("worfbench-tools", "worfbench", 1400), ("asynchow", "asynchow", 1400)],
)
def test_the_published_files_are_read(shared_data, tmp_path, name, folder, fewest):
    plans = [plan for plan in READERS[name](shared_data / folder) if isinstance(plan, SourcePlan)]
    assert len(plans) >= fewest
    sides: dict[str, set[str]] = {}
    prepare_plans(READERS[name], [shared_data / folder], CONFIG, tmp_path / "data.json")
    for example in load_training_data(tmp_path / "data.json", CONFIG):
        sides.setdefault(" ".join(example.asked.casefold().split()), set()).add(example.split)
    assert all(len(splits) == 1 for splits in sides.values())


BROKEN = {
    "worfbench": [WORFBENCH, {**WORFBENCH, "conversations": [{"from": "human", "value": "x"}]}],
    "asynchow": [ASYNCHOW, {**ASYNCHOW, "edge_list": None}],
    "orchestai": [
        {"instruction": "x", "subtasks": [{"id": "a", "instruction": "b"}]},
        {"instruction": None, "subtasks": [{"id": "a", "instruction": "b"}]},
    ],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_counted_and_the_others_are_kept(tmp_path, name):
    write(tmp_path / "records.jsonl.gz", BROKEN[name])
    plan, reason = READERS[name](tmp_path / "records.jsonl.gz")
    assert isinstance(plan, SourcePlan)
    assert isinstance(reason, UnusablePlanError)
    assert "another shape" in str(reason)


def test_the_reader_in_the_documentation_lies_in_the_working_directory(tmp_path, monkeypatch):
    documented = (REPOSITORY / "docs" / "plans.md").read_text()
    (tmp_path / "documented.py").write_text(documented.split("```python\n")[1].split("```")[0])
    nodes = [{"id": "a", "text": "boil"}, {"id": "b", "text": "pour"}]
    row = {"id": "1", "goal": "make tea", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    write(tmp_path / "mine.json", [row, {**row, "nodes": []}, {**row, "nodes": None}])
    monkeypatch.chdir(tmp_path)
    plan, *reasons = find_reader("documented:read")(tmp_path / "mine.json")
    assert str(tmp_path) not in sys.path
    assert plan.edges == {("a", "b")}
    assert [type(reason) for reason in reasons] == [UnusablePlanError] * 2


# Break's plans keep their edges.


@pytest.mark.parametrize(
    ("name", "encoding"), [("qdmr.jsonl.gz", ""), ("QDMR/dev.csv", "utf-8"), ("QDMR/dev.csv", "utf-8-sig")]
)
def test_break_as_it_is_published_and_as_json_lines(tmp_path, name, encoding):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name.endswith(".csv"):
        with (tmp_path / name).open("w", newline="", encoding=encoding) as file:
            table = csv.DictWriter(file, list(BREAK))
            table.writeheader()
            table.writerow(BREAK)
    else:
        write(tmp_path / name, [BREAK])
    plan = only("break", tmp_path)
    assert (plan.id, plan.source, plan.licence) == ("ATIS_7", "break", "MIT")
    assert plan.task == "which flights from denver are cheaper than those from boston"
    assert [s.words for s in plan.steps][1] == "return #1 from denver"
    assert plan.edges == {("1", "2"), ("2", "3"), ("1", "4"), ("3", "4")}
