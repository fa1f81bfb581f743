"""Scripted chat models stand for real ones in other tests, so their tokens must chain as those of real ones do."""

import pytest
import torch

from orchestai.agents.conversation import Conversation
from orchestai.agents.workflow import AttemptContext
from orchestai.tasks.task import Task
from support.agents.scripted import END, ScriptedChatModel, scripted_agents

TASK = Task(task_id="1", suite="s", instruct_prompt="Go.")


async def test_a_prompt_begins_with_all_that_was_read_and_written_before():
    talk = Conversation("role", ScriptedChatModel(["first", "second"]))
    one, two = await talk.ask("question"), await talk.ask("again", "tool")
    before = torch.cat([one.sampled.prompt, one.sampled.completion])
    assert torch.equal(two.sampled.prompt[: len(before)], before)
    assert [one.text, two.text] == ["first", "second"]
    assert one.sampled.completion[-1] == END


async def test_an_act_is_cut_off_after_its_tokens():
    act = await Conversation("role", ScriptedChatModel(["first"])).ask("question", max_new_tokens=3)
    assert (act.text, act.ended, len(act.sampled.completion)) == ("fir", False, 3)


async def test_a_role_goes_on_with_its_script_in_its_next_conversation():
    context: AttemptContext = scripted_agents(
        TASK, {"a": ["1", "2"], "b": lambda messages: messages[-1]["content"].upper()}
    )
    said = [(await context.conversation(role).ask("x")).text for role in ("a", "b", "a")]
    assert said == ["1", "X", "2"]
    episode = context.episode(1.0)
    assert [(t.role, t.policy, len(t.turns)) for t in episode.trajectories] == [
        ("a", "a", 1),
        ("b", "b", 1),
        ("a", "a", 1),
    ]


async def test_a_script_that_is_over_fails_the_test():
    with pytest.raises(AssertionError, match="the script is over"):
        await Conversation("role", ScriptedChatModel([])).ask("x")
