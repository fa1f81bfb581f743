"""Question suites come in the files of their authors and in the hub's schema; both must give the same tasks."""

import json

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
