"""Plans that others wrote arrive whole, keyed by id, with license and durations, and no task is on two sides."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config, TasksConfig
from orchestai.data.prepare_plans import prepare_plans
from orchestai.data.readers import READERS, find_reader
from orchestai.data.readers.plan import SourcePlan, SourceStep, UnusablePlanError
from orchestai.data.readers.tools import tool_lines
from orchestai.data.training_file import load_training_data
from orchestai.errors import UserError
from orchestai.tasks.splits import part_of
from support.repository import REPOSITORY
from support.training.plan_files import only, write

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
    "timedelta_dic": {
        "1": [{"seconds": 180.0}] * 2,
        "2": [{"seconds": 5.0}] * 2,
        "3": [{"seconds": 2419200.0}, {"seconds": 2678400.0}],
    },
}


def test_worfbench(tmp_path):
    write(tmp_path / "wikihow.json.gz", [WORFBENCH])
    plan = only("worfbench", tmp_path)
    assert (plan.id, plan.source, plan.licence, plan.task) == ("wikihow_7", "wikihow", "MIT", "How to Make Tea")
    assert [(s.id, s.words) for s in plan.steps] == [("1", "Boil water."), ("2", "Take a cup."), ("3", "Take a cup.")]
    assert plan.edges == {("1", "3"), ("2", "3")}


def with_list(listed: str, id_: str = "x") -> dict:
    system, _, answer = WORFBENCH["conversations"]
    user = {"role": "user", "content": f"Task: How to Make Tea\n{listed}"}
    return {**WORFBENCH, "id": id_, "conversations": [system, user, answer]}


@pytest.mark.parametrize(
    ("listed", "lines"),
    [
        ("The action list you can take: 1. go to {place}\n2. take {thing}", ["1. go to {place}", "2. take {thing}"]),
        (
            "api_list:[{'name': 'boil', 'description': 'Boils.', 'parameters': {'type': 'object', 'properties': "
            "{'litres': {'type': 'integer', 'description': 'How much.'}}}}]",
            ["boil(litres): Boils."],
        ),
        (
            "The tool list you can select from: [{'api_name': 'boil', 'api_description': 'Boils.', "
            "'parameters': {'litres': {'type': 'int'}, 'pot': {'type': 'str'}}}]",
            ["boil(litres, pot): Boils."],
        ),
        ("The api list you can use: {'boil(litres)': 'Boils.'}", ["boil(litres): Boils."]),
        (
            "The database tables and corresponding fields you can operate are: {'pots': ['id', 'litres']}",
            ["pots: id, litres"],
        ),
    ],
)
def test_worfbench_lists_tools_a_line_each(tmp_path, listed, lines):
    """In all five notations of the benchmark; beside the task, which stays what a task is told apart by."""
    write(tmp_path / "tea.json", [with_list(listed)])
    plan = only("worfbench-tools", tmp_path)
    assert plan.tools == ("Tools:", *lines)
    assert plan.task == only("worfbench", tmp_path).task == "How to Make Tea"
    free, given = plan.example(given=False), plan.example(given=True)
    assert free.instruction == "\n".join(["How to Make Tea", "Tools:", *lines])
    assert given.instruction.startswith(free.instruction + "\nStep 1. Boil water.")
    assert [given.instruction[a:b] for a, b in given.spans] == [s.instruction for s in given.workflow.subtasks]


@pytest.mark.parametrize(
    ("listed", "lines"),
    [
        ("[{'name': 'a\\nb', 'description': 'c\\nd'}]", ["a b(): c d"]),
        ("{'pots': ['id\\n', 'litres']}", ["pots: id , litres"]),
        ("{'pour', 'boil'}", ["boil", "pour"]),
        ("{['boil']: 'Boils.'}", ["{['boil']: 'Boils.'}"]),
    ],
)
def test_a_tool_takes_one_line_however_odd_the_list(listed, lines):
    assert tool_lines(listed) == tuple(lines)


def test_worfbenchs_list_of_actions_does_not_tell_the_steps_of_the_plan(tmp_path):
    """The published list has the plan's steps without a line break at their ends, and some of them twice."""
    listed = ["Pour.\n", "Take a cup.", "Boil water.\n", "Boil water.", "Add milk.\n"]
    write(tmp_path / "tea.json", [with_list(f"The action list you can take: {listed}")])
    assert only("worfbench-tools", tmp_path).tools[1:] == ("Add milk.", "Boil water.", "Pour.", "Take a cup.")


def test_a_task_with_and_without_tools_is_one_task(tmp_path):
    """Else the plan of a task for tests would be learned from its other form."""
    write(tmp_path / "tea.json", [with_list("The action list you can take: ['Boil water.']")])
    for name, fold in (("worfbench", 0), ("worfbench-tools", 1)):
        config = CONFIG.model_copy(update={"tasks": TasksConfig(test_fraction=0.5, test_fold=fold)})
        prepare_plans(READERS[name], [tmp_path], config, tmp_path / f"{name}.out", given=fold == 0)
    with pytest.raises(UserError, match="'How to Make Tea' is a task for tests and one to learn from"):
        both = [tmp_path / "worfbench.out", tmp_path / "worfbench-tools.out"]
        prepare_plans(READERS["orchestai"], both, CONFIG, tmp_path / "joined.json", given=True)


def test_steps_with_the_same_words_stay_two_steps(tmp_path):
    write(tmp_path / "wikihow.json.gz", [WORFBENCH])
    example = only("worfbench", tmp_path).example(given=True)
    assert [subtask.id for subtask in example.workflow.subtasks] == ["1", "2", "3"]
    assert example.workflow.dependencies() == [[], [], [0, 1]]
    assert len(set(example.spans)) == 3


def test_asynchow_has_durations_and_does_not_say_the_order(tmp_path):
    write(tmp_path / "async_benchmark.jsonl.gz", [ASYNCHOW])
    plan = only("asynchow", tmp_path)
    assert plan.source == "asynchow"
    assert [step.seconds for step in plan.steps] == [180, 5, 2678400]
    example = plan.example(given=True)
    assert example.instruction == "How to Make Tea\nStep 1. Boil water\nStep 2. Take a cup\nStep 3. Pour"
    assert [example.instruction[slice(*span)] for span in example.spans] == ["Boil water", "Take a cup", "Pour"]
    assert example.rewards is None
    assert not any(subtask.worker or subtask.task_type for subtask in example.workflow.subtasks)


def test_asynchow_as_its_own_prompts_have_it_states_every_edge(tmp_path):
    write(tmp_path / "async_benchmark.jsonl", [ASYNCHOW])
    plan = only("asynchow-stated", tmp_path)
    assert plan.source == "asynchow_stated"
    assert len(plan.remarks) == 2
    assert all(str(a) in said and "3" in said for a, said in zip((1, 2), sorted(plan.remarks), strict=True))


def test_langgraph(tmp_path):
    graph = {
        "instruction": "answer it",
        "nodes": [
            {"id": "__start__", "type": "schema", "data": "__start__"},
            {"id": "search", "type": "runnable", "data": {"id": ["x"], "name": "search_web"}},
            {"id": "write", "type": "runnable", "data": {"name": "w"}, "metadata": {"description": "Write it up."}},
            {"id": "__end__", "type": "schema", "data": "__end__"},
        ],
        "edges": [
            {"source": "__start__", "target": "search"},
            {"source": "search", "target": "write", "conditional": True},
            {"source": "write", "target": "__end__"},
        ],
    }
    loop = {**graph, "edges": [*graph["edges"], {"source": "write", "target": "search", "conditional": True}]}
    write(tmp_path / "graphs.json", [graph, loop])
    plan, reason = READERS["langgraph-json"](tmp_path / "graphs.json")
    assert [(s.id, s.words) for s in plan.steps] == [("search", "search web"), ("write", "Write it up.")]
    assert plan.edges == {("search", "write")}
    assert str(reason) == "the edges form a cycle"


def test_own_plans_and_prepared_examples(tmp_path):
    own = {
        "instruction": "make tea",
        "subtasks": [{"id": "w", "instruction": "boil"}, {"id": "p", "instruction": "pour", "depends_on": ["w"]}],
        "seconds": {"w": 180},
        "licence": "CC0",
    }
    write(tmp_path / "own.json", [own])
    plan = only("orchestai", tmp_path / "own.json")
    assert (plan.source, plan.licence, plan.edges) == ("own", "CC0", {("w", "p")})
    prepare_plans(READERS["orchestai"], [tmp_path / "own.json"], CONFIG, tmp_path / "a.json", given=False)
    prepare_plans(READERS["orchestai"], [tmp_path / "a.json"], CONFIG, tmp_path / "b.json", given=True)
    assert load_training_data(tmp_path / "a.json", CONFIG) == load_training_data(tmp_path / "b.json", CONFIG)


@pytest.mark.parametrize(
    ("steps", "edges", "reason"),
    [
        ("", "", "no steps"),
        ("aa", "", "same id"),
        ("ab", "ax", "does not exist"),
        ("ab", "ab ba", "cycle"),
    ],
)
def test_what_is_no_plan_says_why(steps, edges, reason):
    with pytest.raises(UnusablePlanError, match=reason):
        SourcePlan("1", "s", "", "t", tuple(SourceStep(s, "x") for s in steps), frozenset(map(tuple, edges.split())))


def test_a_task_is_on_one_side_whatever_its_source_and_spelling():
    tasks = [f"How to do thing {i}" for i in range(2000)]
    settings = TasksConfig(test_fraction=0.2, val_fraction=0.1)
    splits = Counter(part_of(task, settings) for task in tasks)
    assert splits["test"] / 2000 == pytest.approx(0.2, abs=0.03)
    assert splits["validation"] / 1600 == pytest.approx(0.1, abs=0.03)
    assert [part_of(f"  {t.upper()}.\n", settings) for t in tasks] == [part_of(t, settings) for t in tasks]


def test_each_fold_tests_other_tasks_and_together_all():
    folds = [TasksConfig(test_fraction=0.2, test_fold=fold) for fold in range(5)]
    for i in range(500):
        assert [part_of(f"How to do thing {i}", fold) for fold in folds].count("test") == 1
    with pytest.raises(ValueError, match="test_fold=5"):
        TasksConfig(test_fraction=0.2, test_fold=5)


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
    assert (example["suite"], example["licence"], example["given"]) == ("wikihow", "MIT", True)
    dropped = json.loads(output.with_suffix(".meta.json").read_text())["dropped"]
    assert dropped == {"the same plan for the same task": 1, "no list of nodes before the edges": 1}


def test_a_reader_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_reader.py").write_text(
        "from orchestai.data.readers.plan import SourcePlan, SourceStep\n"
        "def read(path):\n"
        "    yield SourcePlan('1', 'mine', 'CC0', 'task', (SourceStep('a', 'words'),), frozenset())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    [plan] = find_reader("my_reader:read")(tmp_path)
    assert plan.source == "mine"
    for name in ("nobody", "no_such_module:read", "my_reader:write"):
        with pytest.raises(UserError, match="--from"):
            find_reader(name)


@pytest.mark.parametrize(
    ("name", "folder", "fewest"),
    [("worfbench", "worfbench", 1400), ("worfbench-tools", "worfbench", 1400), ("asynchow", "asynchow", 1400)],
)
def test_the_published_files_are_read(shared_data, tmp_path, name, folder, fewest):
    plans = [plan for plan in READERS[name](shared_data / folder) if isinstance(plan, SourcePlan)]
    assert len(plans) >= fewest
    sides: dict[str, set[str]] = {}
    prepare_plans(READERS[name], [shared_data / folder], CONFIG, tmp_path / "data.json", given=False)
    for example in load_training_data(tmp_path / "data.json", CONFIG):
        sides.setdefault(" ".join(example.asked.casefold().split()), set()).add(example.split)
    assert all(len(splits) == 1 for splits in sides.values())


BROKEN = {
    "worfbench": [WORFBENCH, {**WORFBENCH, "conversations": [{"from": "human", "value": "x"}]}],
    "asynchow": [ASYNCHOW, {**ASYNCHOW, "edge_list": None}],
    "langgraph-json": [
        {"instruction": "x", "nodes": [{"id": "a"}], "edges": []},
        {"instruction": "x", "nodes": ["a"], "edges": []},
    ],
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


@pytest.mark.parametrize("word", ["Make", "water.\\n2", "action.'"])
def test_half_a_character_spoils_its_own_record_alone(tmp_path, word):
    """JSON may say `\\ud83d`, in a task, a step or a tool; no file, hash or tokenizer takes it."""
    whole = json.dumps(with_list("The action list you can take: ['An action.']"))
    broken = json.loads(whole.replace(word, "\\ud83d" + word))
    write(tmp_path / "wikihow.json", [broken, WORFBENCH])
    report = prepare_plans(READERS["worfbench-tools"], [tmp_path], CONFIG, tmp_path / "a.out", given=True)
    assert report.dropped == {"half a character (a lone surrogate)": 1}


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_duration_is_a_time(seconds):
    with pytest.raises(UnusablePlanError, match="duration"):
        SourcePlan("1", "s", "", "t", (SourceStep("a", "x", seconds),), frozenset())


def test_a_folder_of_training_files_is_joined_without_what_lies_beside_them(tmp_path):
    write(tmp_path / "own.json.gz", BROKEN["orchestai"][:1])
    prepare_plans(READERS["orchestai"], [tmp_path], CONFIG, tmp_path / "a.json", given=True)
    assert (tmp_path / "a.meta.json").exists()
    assert len(list(READERS["orchestai"](tmp_path))) == 2


def test_a_torn_archive_is_said_in_one_line(tmp_path):
    torn = bytearray(gzip.compress(json.dumps([WORFBENCH] * 50).encode()))
    torn[30:40] = b"\xff" * 10
    (tmp_path / "wikihow.json.gz").write_bytes(torn)
    with pytest.raises(UserError, match="cannot be read"):
        list(READERS["worfbench"](tmp_path))


def test_the_reader_in_the_documentation_lies_in_the_working_directory(tmp_path, monkeypatch):
    documented = (REPOSITORY / "docs" / "plans.md").read_text()
    (tmp_path / "documented.py").write_text(documented.split("```python\n")[1].split("```")[0])
    nodes = [{"id": "a", "text": "boil", "seconds": 180}, {"id": "b", "text": "pour"}]
    row = {"id": "1", "goal": "make tea", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    write(tmp_path / "mine.json", [row, {**row, "nodes": []}, {**row, "nodes": None}])
    monkeypatch.chdir(tmp_path)
    plan, *reasons = find_reader("documented:read")(tmp_path / "mine.json")
    assert str(tmp_path) not in sys.path
    assert [step.seconds for step in plan.steps] == [180, None]
    assert plan.edges == {("a", "b")}
    assert [type(reason) for reason in reasons] == [UnusablePlanError] * 2


def test_a_reader_that_gives_no_plans_is_told_so(tmp_path):
    with pytest.raises(UserError, match="gave a dict"):
        prepare_plans(lambda path: [{}], [tmp_path], CONFIG, tmp_path / "a.json", given=True)


@pytest.mark.parametrize("given", [True, False])
def test_files_of_different_folds_are_not_joined(tmp_path, given):
    write(tmp_path / "async_benchmark.jsonl", [{**ASYNCHOW, "titles": f"Thing {i}"} for i in range(20)])
    write(tmp_path / "para_benchmark.jsonl", [{**ASYNCHOW, "titles": f"Thing {i}"} for i in range(20)])
    files = []
    for fold, part in enumerate(("async", "para")):
        settings = Config(workers={"pool": POOL}, tasks={"test_fold": fold})
        files.append(tmp_path / f"{part}.json")
        source = tmp_path / f"{part}_benchmark.jsonl"
        prepare_plans(READERS["asynchow"], [source], settings, files[-1], given=given or part == "async")
    with pytest.raises(UserError, match=r"'Thing \d+' is a task for tests and one to learn from"):
        prepare_plans(READERS["orchestai"], files, CONFIG, tmp_path / "all.json", given=True)


def test_examples_that_do_not_name_their_task_are_told_apart_by_what_stands_before_the_steps(tmp_path):
    """Files that were prepared before the task was kept apart, and such as are written by hand."""
    plan = SourcePlan("1", "s", "MIT", "Make tea", (SourceStep("1", "Boil water"),), frozenset())
    named = plan.example(given=True)
    unnamed = named.model_copy(update={"task": ""})
    assert unnamed.asked == named.asked == "Make tea"
    assert unnamed.model_copy(update={"given": False}).asked == named.instruction
    report = prepare_plans(lambda path: [unnamed, named], [tmp_path], CONFIG, tmp_path / "a.json", given=True)
    assert report.dropped == {"the same plan for the same task": 1}
    tested = named.model_copy(update={"split": "test", "licence": "CC0"})
    with pytest.raises(UserError, match="'Make tea' is a task for tests and one to learn from"):
        prepare_plans(lambda path: [unnamed, tested], [tmp_path], CONFIG, tmp_path / "a.json", given=True)


def test_the_commands_help_names_all_readers():
    [option] = [option for option in get_command(app).commands["prepare-plans"].params if "--from" in option.opts]
    assert all(f" {name}," in option.help for name in READERS)
