"""The writing task: its gated reward at every gate and edge by hand, its data, and what the two writers are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.agents.workflows.writing import Writing, WritingArgs
from orchestai.rewards.writing import (
    TRANSITIONS,
    WritingReward,
    overlap,
    style,
    writing_reward,
)
from orchestai.tasks.task import Task
from support.agents.scripted import scripted_agents


def text(words: int, distinct: int, start: int = 0, length: int | None = None) -> str:
    """`words` words of four letters, `distinct` of them different, and of `length` characters in all."""
    names = [f"q{chr(97 + i // 26)}{chr(97 + i % 26)}z" for i in range(start, start + distinct)]
    joined = " ".join(names[i % distinct] for i in range(words))
    return joined if length is None else joined + " " * (length - len(joined))


FIRST = text(200, 100, length=1000)


@pytest.mark.parametrize(("words", "passed"), [(127, 0), (128, 4), (256, 4), (257, 0)])
def test_first_gate_needs_both_texts_within_the_words(words: int, passed: int) -> None:
    one, other = text(words, 100, length=1300), text(200, 100, length=1300)
    for found in (writing_reward(one, other), writing_reward(other, one)):
        assert (found.passed > 0) == (passed > 0)
        assert found.length == (0.5 if passed else 0.0)
        assert passed or found == WritingReward()


@pytest.mark.parametrize(
    ("characters", "balance"),
    [
        (799, None),
        (800, 0.0),
        (1050, 0.5),
        (1300, 1.0),
        (1450, 1.0),
        (1600, 1.0),
        (1800, 0.5),
        (2000, 0.0),
        (2001, None),
    ],
)
def test_second_gate_wants_the_second_text_to_be_longer(characters: int, balance: float | None) -> None:
    found = writing_reward(FIRST, text(150, 100, length=characters))
    if balance is None:
        assert found == WritingReward(length=0.5, passed=1)
        assert found.total == 0.5
    else:
        assert found.balance == pytest.approx(balance)
        assert found.passed == 4  # a gate at its edge gives nothing and is open all the same


@pytest.mark.parametrize(
    ("distinct", "variety"),
    [(49, None), (50, 0.0), (60, 0.25), (70, 0.5), (100, 0.5), (130, 0.5), (150, 0.25), (170, 0.0), (171, None)],
)
def test_third_gate_wants_as_many_different_words(distinct: int, variety: float | None) -> None:
    found = writing_reward(FIRST, text(200, distinct, length=1400))
    assert found.balance == 1.0
    if variety is None:
        assert found == WritingReward(length=0.5, balance=1.0, passed=2)
    else:
        assert found.variety == pytest.approx(variety)
        assert found.passed == 4


def test_style_is_kinds_of_transitions_and_shared_words() -> None:
    assert style("qaaz qabz", "qacz qadz") == 0.0
    assert style("however qaaz", "qabz") == pytest.approx(0.4 * 0.4)
    # two kinds in two texts: 0.4 + 0.05
    assert style("however qaaz", "finally qabz") == pytest.approx(0.4 * 0.45)
    # 1 of 5 words is shared: 0.2 of the 0.23 that give full marks
    assert overlap("qaaz qabz qacz", "qacz qadz qaez") == pytest.approx(0.2)
    assert style("qaaz qabz qacz", "qacz qadz qaez") == pytest.approx(0.6 * 0.2 / 0.23)
    assert style("qaaz", "qaaz") == pytest.approx(0.6)
    every_kind = " ".join(phrases[0] for phrases in TRANSITIONS.values())
    assert len(TRANSITIONS) == 12
    assert style(every_kind, every_kind) == pytest.approx(0.4 * 0.95 + 0.6)


def test_best_reward_adds_up() -> None:
    kinds = [phrases[0] for phrases in TRANSITIONS.values()]
    words = [*kinds, *FIRST.split()]
    first = " ".join(words)
    second = first + " " + "z" * (len(first) * 2 // 5)
    found = writing_reward(first, second)
    assert found == WritingReward(0.5, 1.0, 0.5, pytest.approx(0.98), 4)
    assert found.total == pytest.approx(2.98)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_have_a_reward_between_nothing_and_three(first: str, second: str) -> None:
    found = writing_reward(first, second, min_words=0, max_words=50)
    assert 0 <= found.total <= 3
    assert found.passed in {0, 1, 2, 4}


TASK = Task(task_id="arxiv/1", suite="arxiv_abstracts", instruct_prompt="", details={"abstract": "On qaaz."})


async def test_writers_are_told_their_parts() -> None:
    heard: dict[str, list[str]] = {"background": [], "method": []}

    def answer(role: str, words: str):
        def say(messages):
            heard[role].append(messages[-1]["content"])
            return words

        return say

    scripts = {"background": answer("background", "qaaz"), "method": answer("method", "qabz qaaz")}
    workflow = Writing(WritingArgs(num_turns=2, min_words=1, max_words=5), None)  # type: ignore[arg-type]
    episode = await workflow.run(TASK, scripted_agents(TASK, scripts))
    assert all("On qaaz." in prompt for prompts in heard.values() for prompt in prompts)
    (first, again), (_, method_again) = heard["background"], heard["method"]
    assert "Write the background and motivation" in first
    assert "covers the methodology and implications" in first
    assert "Your last version:\nqaaz" in again
    assert "other writer's last version:\nqabz qaaz" in again
    assert "Your last version:\nqabz qaaz" in method_again
    assert "2.25 times as long" in again
    # 9 characters by 4 is too long, so each turn gave the first gate's 0.5
    assert episode.metrics["turn_1_reward"] == episode.metrics["turn_2_reward"] == 0.5
    assert episode.outcome.value == 1.0  # type: ignore[union-attr]
