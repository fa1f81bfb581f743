"""Words of steps change places between plans, so that a planner learns what is said around steps, not the steps."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.data.augment import exchange_phrases
from orchestai.data.training_file import TrainingExample
from orchestai.workflow import Subtask, Workflow


def plan(text: str, parents: Sequence[Sequence[int]] | None = None, split: str = "train") -> TrainingExample:
    """The parts of `text` between bars are steps, numbered from 0; without `parents` each takes the one before."""
    parts = text.split("|")
    subtasks = []
    for i, part in enumerate(parts[1::2]):
        start = len("".join(parts[: 2 * i + 1]))
        takes = parents[i] if parents is not None else range(i)[-1:]
        subtasks.append(
            Subtask(
                id=str(i),
                instruction=part,
                task_type=f"type of {part.lower()}",
                span=(start, start + len(part)),
                depends_on=tuple(map(str, takes)),
            )
        )
    return TrainingExample.model_validate(
        {"instruction": "".join(parts), "workflow": Workflow(subtasks), "split": split, "suite": "written"}
    )


CHAINS = [
    plan("Hi! |Sort them|, thanks, and then |add them up|."),
    plan("please |reverse the word|; |cut it in two|"),
    plan("I wonder about |the mean|, so |round it|"),
]


def test_words_and_types_move_together_and_all_else_stays() -> None:
    around = {"".join("" if i % 2 else part for i, part in enumerate(parts(one))): one for one in CHAINS}
    varied = exchange_phrases(CHAINS, 12, seed=0)
    assert varied
    for one in varied:
        assert one.augmented
        origin = around["".join("" if i % 2 else part for i, part in enumerate(parts(one)))]
        assert one.workflow.dependencies() == origin.workflow.dependencies()
        for subtask in one.workflow.subtasks:
            assert subtask.span is not None
            assert one.instruction[slice(*subtask.span)] == subtask.instruction
            assert subtask.task_type == f"type of {subtask.instruction.lower()}"


def test_what_is_held_out_does_not_come_back_in_other_clothes() -> None:
    held_out = plan("|Halve it|", split="validation")
    assert not exchange_phrases([held_out], 5, seed=0)
    for one in exchange_phrases([*CHAINS, held_out], 40, seed=0):
        assert all(subtask.instruction.lower() != "halve it" for subtask in one.workflow.subtasks)


def parts(example: TrainingExample) -> list[str]:
    """Alternately what is said around steps and their words."""
    found, at = [], 0
    for start, end in example.spans:
        found += [example.instruction[at:start], example.instruction[start:end]]
        at = end
    return [*found, example.instruction[at:]]
