"""TriviaQA: quiz questions with many wordings of each answer (Joshi et al. 2017)."""

from __future__ import annotations

from orchestai.tasks.qa.questions import question_suite
from orchestai.tasks.records import Record
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

HUB_NAME = "mandarjoshi/trivia_qa:rc.nocontext"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors, such as `unfiltered-web-dev.json`.

    The validation questions are the split `test`, since the answers of the authors' test questions are hidden.
    """
    hub = {"train": (HUB_NAME, "train"), "test": (HUB_NAME, "validation")}
    return question_suite("triviaqa", hub, path, _task, within="Data")


def _task(record: Record, split: str) -> Task:
    """`Question` and `Answer.NormalizedAliases` in the authors' files are `question` and `answer.normalized_aliases` on
    the hub. As in the official script, the answers are the normalized aliases, and what people answered where known.
    """
    if "Question" in record:
        answer = record.get("Answer", {})
        question, name = record["Question"], record["QuestionId"]
        wordings = [*answer.get("NormalizedAliases", ()), *answer.get("HumanAnswers", ())]
        value = answer.get("Value", "")
    else:
        answer = record["answer"]
        question, name = record["question"], record["question_id"]
        wordings, value = answer["normalized_aliases"], answer["value"]
    return Task(
        task_id=f"triviaqa/{name}",
        suite="triviaqa",
        split=split,
        instruct_prompt=question,
        answers=tuple(wordings),
        details={"value": value},
        source="nlp.cs.washington.edu/triviaqa, Apache-2.0",
    )
