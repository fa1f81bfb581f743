"""Words of steps change places between plans, so that a planner learns what is said around steps, not the steps."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.data.exchange_phrases import exchange_phrases
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


def test_words_fit_where_they_are_put() -> None:
    """A noun phrase does not stand for a request, nor what goes on from a step for what begins."""
    firsts = {one.workflow.subtasks[0].instruction.lower() for one in exchange_phrases(CHAINS, 40, seed=1)}
    assert firsts == {"sort them", "reverse the word", "the mean"}
    for one in exchange_phrases(CHAINS, 40, seed=2):
        begins = one.workflow.subtasks[0].instruction
        assert ("I wonder" in one.instruction) == (begins == "the mean")
        assert begins[0].isupper() == one.instruction.startswith("Hi! ")


BRANCHED = [
    plan("|Count the a's| and |count the b's|; |subtract the counts|.", [[], [], [0, 1]]),
    plan("For once |take the sum| and |find the largest|, and |multiply both|", [[], [], [0, 1]]),
]


def test_where_steps_branch_only_words_vary_that_nothing_speaks_of() -> None:
    """Only chains were varied, and planners took steps for a chain that were none."""
    varied = exchange_phrases([*CHAINS, *BRANCHED], 200, seed=0)
    branched = [one for one in varied if len(one.workflow) == 3]
    assert {one.instruction for one in branched} == {
        "Count the a's and count the b's; multiply both.",
        "For once take the sum and find the largest, and subtract the counts",
    }
    assert {tuple(map(tuple, one.workflow.dependencies())) for one in branched} == {((), (), (0, 1))}
    last = {one.workflow.subtasks[-1].instruction for one in varied if len(one.workflow) == 2}
    assert not last & {"subtract the counts", "multiply both"}


def test_words_stay_in_their_place_where_the_last_step_is_told_first() -> None:
    told = plan("I want |the total| of what is left when you |drop the zeros|.", [[1], []])
    varied = exchange_phrases([*CHAINS, told], 100, seed=0)
    told_first = [one for one in varied if one.workflow.dependencies()[0]]
    assert {one.instruction for one in told_first} == {
        "I want the total of what is left when you sort them.",
        "I want the total of what is left when you reverse the word.",
    }
    assert all(one.instruction[slice(*s.span)] == s.instruction for one in told_first for s in one.workflow.subtasks)


def test_what_is_held_out_does_not_come_back_in_other_clothes() -> None:
    held_out = plan("|Halve it|", split="validation")
    assert not exchange_phrases([held_out], 5, seed=0)
    for one in exchange_phrases([*CHAINS, held_out], 40, seed=0):
        assert all(subtask.instruction.lower() != "halve it" for subtask in one.workflow.subtasks)


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
