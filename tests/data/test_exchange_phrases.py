"""Words of steps change places between plans, so that a planner learns what is said around steps, not the steps."""

from __future__ import annotations

import pytest

from orchestai.data.exchange_phrases import exchange_phrases
from orchestai.data.training_file import TrainingExample
from orchestai.workflow import Subtask, Workflow


def plan(text: str, *, chain: bool = True, split: str = "train") -> TrainingExample:
    """The parts of `text` between bars are steps."""
    parts = text.split("|")
    subtasks: list[Subtask] = []
    for i, part in enumerate(parts):
        if i % 2:
            start = len("".join(parts[:i]))
            parents = (str(len(subtasks)),) if subtasks and chain else ()
            subtasks.append(
                Subtask(
                    id=str(len(subtasks) + 1),
                    instruction=part,
                    task_type=f"type of {part.lower()}",
                    span=(start, start + len(part)),
                    depends_on=parents,
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


def test_words_fit_where_they_are_put() -> None:
    """A noun phrase does not stand for a request, nor what goes on from a step for what begins."""
    firsts = {one.workflow.subtasks[0].instruction.lower() for one in exchange_phrases(CHAINS, 40, seed=1)}
    assert firsts == {"sort them", "reverse the word", "the mean"}
    for one in exchange_phrases(CHAINS, 40, seed=2):
        begins = one.workflow.subtasks[0].instruction
        assert ("I wonder" in one.instruction) == (begins == "the mean")
        assert begins[0].isupper() == one.instruction.startswith("Hi! ")


@pytest.mark.parametrize("other", [plan("|Sort a|, |sort b|", chain=False), plan("|Halve it|", split="validation")])
def test_only_chains_to_learn_from_are_varied(other: TrainingExample) -> None:
    """Elsewhere later words may speak of a step, and what is held out must not come back in other clothes."""
    assert not exchange_phrases([other], 5, seed=0)
    words = {subtask.instruction.lower() for subtask in other.workflow.subtasks}
    for one in exchange_phrases([*CHAINS, other], 40, seed=0):
        assert not words & {subtask.instruction.lower() for subtask in one.workflow.subtasks}


def test_no_instruction_comes_twice_and_there_is_an_end() -> None:
    varied = exchange_phrases(CHAINS, 10_000, seed=0)
    texts = [one.instruction for one in varied]
    assert len({*texts, *(one.instruction for one in CHAINS)}) == len(texts) + len(CHAINS) < 100
    assert exchange_phrases(CHAINS, 5, seed=0) == exchange_phrases(CHAINS, 5, seed=0)
    assert exchange_phrases([], 5, seed=0) == []


def parts(example: TrainingExample) -> list[str]:
    """Alternately what is said around steps and their words."""
    found, at = [], 0
    for start, end in example.spans:
        found += [example.instruction[at:start], example.instruction[start:end]]
        at = end
    return [*found, example.instruction[at:]]
