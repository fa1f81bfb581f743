"""Question suites come in the files of their authors and in the hub's schema; both must give the same tasks."""

import gzip
import json

import pytest

from orchestai.errors import UserError
from orchestai.tasks.suites import load_suite

TRIVIA_ANSWER = {
    "Aliases": ["Sunset Blvd", "Sunset Boulevard"],
    "HumanAnswers": ["Sunset Blvd."],
    "MatchedWikiEntityName": "",
    "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
    "NormalizedValue": "sunset boulevard",
    "Type": "WikipediaEntity",
    "Value": "Sunset Boulevard",
}
HOTPOT = {
    "_id": "5a8b",
    "question": "Were Ann and Ben of the same nationality?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Ann", 0], ["Ben", 0], ["Ann", 1]],
    "context": [["Ann", ["Ann is Danish.", " She paints."]], ["Ben", ["Ben is Danish."]], ["Cy", ["Cy is tall."]]],
}


def _load(tmp_path, suite, content, split="test"):
    path = tmp_path / "data.json"
    path.write_text(content)
    return load_suite(suite, str(path)).split(split)


def test_triviaqa_of_its_authors(tmp_path):
    """Their files are one object over many lines."""
    data = {
        "Data": [{"Question": "Which street?", "QuestionId": "tc_33", "Answer": TRIVIA_ANSWER, "SearchResults": []}],
        "Domain": "Web",
        "Version": 1.0,
    }
    (task,) = _load(tmp_path, "triviaqa", json.dumps(data, indent=4))
    assert (task.task_id, task.instruction, task.details["value"]) == (
        "triviaqa/tc_33",
        "Which street?",
        "Sunset Boulevard",
    )
    assert task.answers == ("sunset blvd", "sunset boulevard", "Sunset Blvd.")


def test_triviaqa_in_the_hubs_form(tmp_path):
    names = {"Aliases": "aliases", "NormalizedAliases": "normalized_aliases", "Value": "value"}
    answer = {new: TRIVIA_ANSWER[old] for old, new in names.items()}
    row = {"question": "Which street?", "question_id": "tc_33", "question_source": "", "answer": answer}
    (task,) = _load(tmp_path, "triviaqa", json.dumps(row), "train")
    assert (task.task_id, task.split) == ("triviaqa/tc_33", "train")
    assert task.answers == ("sunset blvd", "sunset boulevard")


def test_questions_without_answers_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"item 1: .*no answer; the answers of this split may be hidden"):
        _load(tmp_path, "triviaqa", json.dumps({"Data": [{"Question": "Which?", "QuestionId": "1"}]}))
    with pytest.raises(UserError, match="field 'question' is missing"):
        _load(tmp_path, "nq_open", '{"q": 1}')


def test_hotpotqa_of_its_authors_and_of_the_hub_are_the_same(tmp_path):
    (task,) = _load(tmp_path, "hotpotqa", json.dumps([HOTPOT]))
    columns = HOTPOT | {
        "id": HOTPOT["_id"],
        "supporting_facts": {"title": ["Ann", "Ben", "Ann"], "sent_id": [0, 0, 1]},
        "context": {"title": ["Ann", "Ben", "Cy"], "sentences": [pair[1] for pair in HOTPOT["context"]]},
    }
    del columns["_id"]
    assert _load(tmp_path, "hotpotqa", json.dumps(columns)) == [task]
    assert task.answers == ("yes",)
    assert task.details["supporting_titles"] == ["Ann", "Ben"]
    assert task.details["passages"][0] == {"title": "Ann", "text": "Ann is Danish. She paints."}


def test_the_real_questions_of_nq_open(shared_data):
    tasks = load_suite("nq_open", str(shared_data / "nq_open" / "NQ-open.dev.jsonl.gz")).split("test")
    assert len(tasks) == 3610
    assert len({task.task_id for task in tasks}) == 3610
    assert tasks[0].answers == ("14 December 1972 UTC", "December 1972")


def test_the_real_questions_of_hotpotqa(shared_data):
    path = shared_data / "hotpotqa_dev" / "hotpot_dev_v1_simplified.json.gz"
    tasks = load_suite("hotpotqa", str(path)).split("test")
    with gzip.open(path) as file:
        assert len(tasks) == len(json.load(file)) == 7405
    assert (tasks[0].answers, tasks[0].details) == (("yes",), {"type": "comparison"})
