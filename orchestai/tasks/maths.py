"""Maths questions with a reference answer: what GSM8K, MATH-500, AIME and DeepScaleR have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def math_suite(name: str, hub: Mapping[str, tuple[str, str]], path: str | None, source: str) -> Suite:
    """A suite of maths questions.

    Args:
        hub: for each split, the hub's data set and the name that it has there.
        path: a file or hub name instead; all that it holds is in every split that is asked for.
        source: where they come from, with license.
    """

    def split(split: str) -> list[Task]:
        data, hub_split = hub[split]
        records = read_records(path or data, hub_split)
        numbered = [(where, {"number": i, **record}) for i, (where, record) in enumerate(records)]
        return to_tasks(numbered, partial(_task, suite=name, split=split, source=source))

    return Suite(name, {each: partial(split, each) for each in hub})


def _task(record: Record, suite: str, split: str, source: str) -> Task:
    question = record["question"] if suite == "gsm8k" else record["problem"]
    return Task(
        task_id=f"{suite}/{split}/{record['number']}",
        suite=suite,
        split=split,
        instruct_prompt=question.strip(),
        answers=(_answer(str(record["answer"])),),
        scorer="maths",
        source=source,
    )


def _answer(text: str) -> str:
    """GSM8K gives a solution whose last line is `#### 1,234`; the others the answer itself."""
    return text.rpartition("####")[2].strip().replace(",", "") if "####" in text else text.strip()


AIME_HUB_NAME = "HuggingFaceH4/aime_2024"
TRAIN_HUB_NAME = "agentica-org/DeepScaleR-Preview-Dataset"


def aime(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file with `problem` and `answer`."""
    hub = {"train": (TRAIN_HUB_NAME, "train"), "test": (AIME_HUB_NAME, "train")}
    return math_suite("aime", hub, path, "artofproblemsolving.com (AIME 2024); DeepScaleR-Preview, MIT")


GSM8K_HUB_NAME = "openai/gsm8k:main"


def gsm8k(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors."""
    hub = {"train": (GSM8K_HUB_NAME, "train"), "test": (GSM8K_HUB_NAME, "test")}
    return math_suite("gsm8k", hub, path, "github.com/openai/grade-school-math, MIT")


MATH500_HUB_NAME = "HuggingFaceH4/MATH-500"


def math500(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file with `problem` and `answer`."""
    return math_suite("math500", {"test": (MATH500_HUB_NAME, "test")}, path, "github.com/openai/prm800k, MIT")
