"""Questions with short answers: what TriviaQA, NQ-open and HotpotQA have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def question_suite(
    name: str,
    hub: Mapping[str, tuple[str, str]],
    path: str | None,
    convert: Callable[[Record, str], Task],
    within: str = "",
) -> Suite:
    """A suite of questions.

    Args:
        hub: for each split, the hub's data set and the name that it has there.
        path: a file or hub name instead; all that a file holds is in every split that is asked for.
        convert: makes a task of a record, which has its `number` in the split, and of the split's name.
        within: see `read_records`.
    """

    def split(split: str) -> list[Task]:
        data, hub_split = hub[split]
        records = read_records(path or data, hub_split, within=within)
        numbered = [(where, {"number": i, **record}) for i, (where, record) in enumerate(records)]
        return to_tasks(numbered, partial(_convert, convert, split))

    return Suite(name, {each: partial(split, each) for each in hub})


def _convert(convert: Callable[[Record, str], Task], split: str, record: Record) -> Task:
    task = convert(record, split)
    if not task.answers:
        raise ValueError("it has no answer; the answers of this split may be hidden")
    return task


HOTPOTQA_HUB_NAME = "hotpotqa/hotpot_qa:distractor"


def hotpotqa(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors, such as `hotpot_dev_distractor_v1.json`.

    The development questions, on which results are published, are the split `test`.
    """
    return question_suite(
        "hotpotqa",
        {"train": (HOTPOTQA_HUB_NAME, "train"), "test": (HOTPOTQA_HUB_NAME, "validation")},
        path,
        _hotpotqa_task,
    )


def _hotpotqa_task(record: Record, split: str) -> Task:
    """`details` has the question's `type`, and, where the file has them, `passages` (`title`, `text`) to search in and
    the `supporting_titles` among them. The authors' files list pairs where the hub has columns."""
    details: dict[str, Any] = {"type": record.get("type", "")}
    if "context" in record:
        pairs = _pairs(record["context"], "sentences")
        details["passages"] = [{"title": title, "text": "".join(sentences)} for title, sentences in pairs]
    if "supporting_facts" in record:
        pairs = _pairs(record["supporting_facts"], "sent_id")
        details["supporting_titles"] = list(dict.fromkeys(title for title, _ in pairs))
    name = record.get("_id", record.get("id", f"{split}/{record['number']}"))
    return Task(
        task_id=f"hotpotqa/{name}",
        suite="hotpotqa",
        split=split,
        instruct_prompt=record["question"],
        answers=(record["answer"],) if record.get("answer") else (),
        details=details,
        source="hotpotqa.github.io, CC BY-SA 4.0",
    )


def _pairs(value: Any, second: str) -> Iterable[tuple[str, Any]]:
    return zip(value["title"], value[second], strict=True) if isinstance(value, dict) else value


NQ_OPEN_HUB_NAME = "google-research-datasets/nq_open"


def nq_open(path: str | None = None) -> Suite:
    """The suite from the hub, or from `NQ-open.train.jsonl` or `NQ-open.dev.jsonl` of its authors.

    The development questions, on which results are published, are the split `test`.
    """
    return question_suite(
        "nq_open", {"train": (NQ_OPEN_HUB_NAME, "train"), "test": (NQ_OPEN_HUB_NAME, "validation")}, path, _nq_open_task
    )


def _nq_open_task(record: Record, split: str) -> Task:
    return Task(
        task_id=f"nq_open/{split}/{record['number']}",
        suite="nq_open",
        split=split,
        instruct_prompt=record["question"],
        answers=tuple(record["answer"]),
        source="github.com/google-research-datasets/natural-questions, CC BY-SA 3.0",
    )


TRIVIAQA_HUB_NAME = "mandarjoshi/trivia_qa:rc.nocontext"


def triviaqa(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors, such as `unfiltered-web-dev.json`.

    The validation questions are the split `test`, since the answers of the authors' test questions are hidden.
    """
    hub = {"train": (TRIVIAQA_HUB_NAME, "train"), "test": (TRIVIAQA_HUB_NAME, "validation")}
    return question_suite("triviaqa", hub, path, _triviaqa_task, within="Data")


def _triviaqa_task(record: Record, split: str) -> Task:
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
