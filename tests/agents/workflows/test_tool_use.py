"""Question answering with tools must reward the turn that found the answer and the episode that gave it, on the shipped
corpus and on passages that come with a task."""

import pytest

from orchestai.agents.workflows.tool_use import ToolUse
from orchestai.errors import UserError
from orchestai.outcome import Scored
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from support.agents.scripted import scripted_agents

TASK = Task(
    task_id="t",
    suite="hotpotqa",
    instruct_prompt="What is the capital of the country of Ann?",
    answers=("Copenhagen",),
    details={
        "passages": [
            {"title": "Ann", "text": "Ann is from Denmark."},
            {"title": "Denmark", "text": "Denmark's capital is Copenhagen."},
            {"title": "Norway", "text": "Oslo is its capital."},
        ]
    },
)


def workflow(**args) -> ToolUse:
    return ToolUse(ToolUse.Args(**{"corpus": None, "passages": 1, **args}), sandbox=None)


async def _run(said, task=TASK, **args):
    flow = workflow(**args)
    return await flow.run(task, scripted_agents(task, {"answerer": said}))


async def test_turns_and_episode_are_rewarded_apart():
    episode = await _run(["<search>Ann</search>", "<search>Denmark capital</search>", "<answer>Copenhagen.</answer>"])
    (trajectory,) = episode.trajectories
    assert [turn.reward for turn in trajectory.turns] == [0.2, 0.7, None]
    assert episode.outcome == Scored(1.2)
    expected = {"success": 1.0, "f1": 1.0, "tagged": 1.0, "calls": 2, "failed_calls": 0, "retrieved": 1.0, "turns": 3}
    assert expected.items() <= episode.metrics.items()


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ('<tool_call>{"name": "Copenhagen", "arguments": {}}</tool_call>', "search"),  # the error names it again
        ("<search>Copenhagen Oslo Paris Rome</search>", "search"),  # guesses
        ("<search>Copenhagen\nOslo</search>", "search"),
        ("<python>print('Copenhagen')</python>", "python"),
        ("<python>print('Copen' + 'hagen')</python>", "python"),
        ("<python>Copenhagen</python>", "python"),  # a NameError, which names it
        ("<repeat>Copenhagen</repeat>", "support.agents.sample:repeat"),
    ],
)
async def test_words_of_ones_own_are_not_found(said, tools):
    """Each of these earned 0.5 for retrieval."""
    with Sandbox(workers=1) as sandbox:
        flow = ToolUse(ToolUse.Args(tools=[tools], tool_reward=0.0), sandbox)
        episode = await flow.run(TASK, scripted_agents(TASK, {"answerer": [said, "?"]}))
    assert episode.trajectories[0].turns[0].reward == 0.0
    assert episode.metrics["retrieved"] == 0.0


async def test_the_same_search_again_finds_nothing_new():
    """Each turn of a policy that repeats its first search earned 0.7."""
    episode = await _run(lambda messages: "<search>Denmark capital</search>", max_calls=3)
    assert [turn.reward for turn in episode.trajectories[0].turns] == [0.7, 0.0, 0.0, None]
    other = ["<search>Denmark capital</search>", "<search>capital Denmark</search>", "?"]
    assert [turn.reward for turn in (await _run(other)).trajectories[0].turns] == [0.7, 0.2, None]


async def test_calls_are_limited_and_the_turn_after_them_counts():
    episode = await _run(lambda messages: "<search>Ann</search>", max_calls=2)
    assert (episode.metrics["turns"], episode.outcome) == (3, Scored(0.0))


async def test_a_function_of_the_users_is_a_tool(tmp_path, monkeypatch):
    (tmp_path / "mytools.py").write_text(
        'def shout(word: str) -> str:\n    """Shouts.\n\n    Args:\n        word: what.\n    """\n'
        "    return word.upper()\n"
    )
    monkeypatch.chdir(tmp_path)
    context = scripted_agents(TASK, {"answerer": ["<shout>copenhagen</shout>", "yes"]})
    await workflow(tools=["mytools:shout", "calculator"]).run(TASK, context)
    assert context.conversations[0].messages[-2] == {"role": "tool", "content": "COPENHAGEN"}
    for wrong, message in (("nope", "no tool 'nope'"), ("mytools:nope", "cannot be imported")):
        with pytest.raises(UserError, match=message):
            workflow(tools=[wrong])


# The shipped corpus and questions
