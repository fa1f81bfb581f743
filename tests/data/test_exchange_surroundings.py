"""What is said around all steps changes places between plans, so that a planner does not learn it with the steps."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.data.augment import exchange_surroundings
from orchestai.data.training_file import TrainingExample
from orchestai.workflow import Subtask, Workflow


def plan(text: str, split: str = "train") -> TrainingExample:
    """The parts of `text` between bars are steps, each of which takes the one before."""
    parts = text.split("|")
    subtasks = []
    for i, part in enumerate(parts[1::2]):
        start = len("".join(parts[: 2 * i + 1]))
        before = (str(i - 1),) if i else ()
        subtasks.append(Subtask(id=str(i), instruction=part, span=(start, start + len(part)), depends_on=before))
    return TrainingExample.model_validate(
        {"instruction": "".join(parts), "workflow": Workflow(subtasks), "split": split, "suite": "written"}
    )


GREETED = plan("Hi Ben! It rains. Please |sort them|, then |add them up|. [2, 1] makes 3.\nThanks, Ada")
BARE = plan("|reverse the word|")
NAMED = plan("The word is given: |cut it in two| and |join both|! Call it task_func(word).")
SAID = [GREETED, BARE, NAMED]


def made(written: Sequence[TrainingExample], seeds: int = 200) -> list[TrainingExample]:
    return [one for seed in range(seeds) for one in exchange_surroundings(written, written, seed=seed)]


def test_sentences_around_the_steps_come_from_anybody_and_the_steps_stay() -> None:
    varied = made(SAID)
    reversed_ones = {one.instruction for one in varied if "reverse" in one.instruction}
    assert reversed_ones == {
        before + "reverse the word" + behind
        for before in ("", "Hi Ben! It rains. ", "The word is given: ")
        for behind in ("", " [2, 1] makes 3.\nThanks, Ada", " Call it task_func(word).")
    }
    for one in varied:
        words = [one.instruction[slice(*span)] for span in one.spans]
        assert words == [subtask.instruction for subtask in one.workflow.subtasks]
        origin = next(each for each in SAID if each.workflow.subtasks[0].instruction == words[0])
        assert one.workflow.dependencies() == origin.workflow.dependencies()


def test_what_is_held_out_is_said_to_nobody_who_learns() -> None:
    held_out = plan("Secret! |Halve it|. Secret.", split="validation")
    varied = [one for seed in range(50) for one in exchange_surroundings([BARE], [BARE, held_out], seed=seed)]
    assert {one.instruction for one in varied} == {"reverse the word"}
