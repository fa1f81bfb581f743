"""Question answering with tools must reward the turn that found the answer and the episode that gave it, on the shipped
corpus and on passages that come with a task."""

import json
import runpy

import pytest

from orchestai.agents.tools import SearchIndex, open_index
from orchestai.agents.tools.search import read_corpus
from orchestai.agents.workflow import attempt
from orchestai.agents.workflows.tool_use import ToolUse
from orchestai.errors import UserError
from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.answers import holds_answer
from orchestai.sandbox import Sandbox
from orchestai.tasks.suites import load_suite
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


async def test_an_answer_without_a_search_earns_no_turn_reward():
    episode = await _run(["Copenhagen"])
    assert episode.outcome == Scored(1.0)
    assert episode.trajectories[0].turns[0].reward is None


async def test_a_call_that_fails_earns_nothing():
    episode = await _run(['<tool_call>{"name": "find"}</tool_call>', "<answer>Oslo</answer>"])
    assert episode.trajectories[0].turns[0].reward == 0.0
    assert (episode.outcome, episode.metrics["failed_calls"]) == (Scored(0.2), 1)


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ('<tool_call>{"name": "Copenhagen", "arguments": {}}</tool_call>', "search"),  # the error names it again
        ("<search>Copenhagen Oslo Paris Rome</search>", "search"),  # guesses
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


@pytest.mark.parametrize(
    "said",
    [
        "<search>zzz</search>",
        "<search></search>",
        "<search>the of</search>",
        "<python></python>",
        "<python>1 / 0</python>",
    ],
)
async def test_a_call_that_comes_to_nothing_did_not_work(said):
    """Each of these earned 0.2 for a call that worked."""
    with Sandbox(workers=1) as sandbox:
        flow = ToolUse(ToolUse.Args(tools=["search", "python"]), sandbox)
        episode = await flow.run(TASK, scripted_agents(TASK, {"answerer": [said, "?"]}))
    assert (episode.trajectories[0].turns[0].reward, episode.metrics["failed_calls"]) == (0.0, 1)


async def test_the_same_search_again_finds_nothing_new():
    """Each turn of a policy that repeats its first search earned 0.7."""
    episode = await _run(lambda messages: "<search>Denmark capital</search>", max_calls=3)
    assert [turn.reward for turn in episode.trajectories[0].turns] == [0.7, 0.0, 0.0, None]
    other = ["<search>Denmark capital</search>", "<search>capital Denmark</search>", "?"]
    assert [turn.reward for turn in (await _run(other)).trajectories[0].turns] == [0.7, 0.2, None]


async def test_an_answer_that_the_question_names_is_in_every_passage_about_it():
    task = TASK.model_copy(update={"instruct_prompt": "Which capital is larger, Copenhagen or Oslo?"})
    episode = await _run(["<search>Denmark capital</search>", "?"], task)
    assert episode.trajectories[0].turns[0].reward == 0.2


async def test_empty_tags_hold_no_answer():
    assert (await _run(["<answer> </answer>"])).outcome == Scored(0.0)
    assert (await _run(["<answer>Oslo</answer>"])).outcome == Scored(0.2)


async def test_calls_are_limited_and_the_turn_after_them_counts():
    episode = await _run(lambda messages: "<search>Ann</search>", max_calls=2)
    assert (episode.metrics["turns"], episode.outcome) == (3, Scored(0.0))


async def test_rewards_are_settings():
    episode = await _run(
        ["<search>capital Denmark</search>", "Copenhagen city"],
        reward_function="f1_reward_fn",
        tool_reward=0,
        retrieval_reward=2,
    )
    assert episode.trajectories[0].turns[0].reward == 2.0
    assert episode.outcome == Scored(pytest.approx(2 / 3))


def test_yes_and_no_cannot_be_found():
    yes = TASK.model_copy(update={"answers": ("yes",)})
    assert not holds_answer("yes, of course", yes)
    assert holds_answer("It is, in COPENHAGEN, there.", TASK)
    assert not holds_answer("Copenhageners", TASK)


async def test_a_role_is_told_of_its_tools_if_it_is_wished():
    for wished in (True, False):
        context = scripted_agents(TASK, {"answerer": ["Copenhagen"]})
        await workflow(describe_tools=wished, system="Answer.").run(TASK, context)
        first = context.conversations[0].messages[0]
        assert first["content"].startswith("Answer.")
        assert ("<tools>" in first["content"]) == wished


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


async def test_a_task_without_passages_is_the_users_to_mend():
    with pytest.raises(UserError, match="bring no passages"):
        await _run(["<search>x</search>"], TASK.model_copy(update={"details": {}}))


async def test_a_reward_that_cannot_be_had_is_no_zero():
    def broken(task, answer, sandbox):
        return Unscorable("scorer", "the judge is down")

    agents = scripted_agents(TASK, {"answerer": ["Copenhagen"]})
    episode = await attempt(workflow(reward_function=broken), TASK, agents)
    assert episode.outcome == Unscorable("scorer", "the judge is down")


# The shipped corpus and questions


@pytest.fixture(scope="module")
def agents_data(repository):
    return repository / "data" / "agents"


@pytest.fixture(scope="module")
def questions(agents_data) -> list[Task]:
    suite = load_suite("written", str(agents_data / "questions.jsonl"))
    found = {split: suite.split(split) for split in ("train", "validation", "test")}
    assert {split: len(tasks) for split, tasks in found.items()} == {"train": 120, "validation": 30, "test": 50}
    return [task for tasks in found.values() for task in tasks]


def test_the_files_are_what_their_script_writes(agents_data, tmp_path):
    module = runpy.run_path(str(agents_data / "make_corpus.py"))
    world = module["World"](seed=5)
    module["build"](world)
    lines = (agents_data / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == world.passages
    asked = {question for question, _, _ in world.questions}
    assert len(asked) == len(world.questions)


def test_every_question_is_answered_by_its_passages(agents_data, questions):
    by_title = {passage.title: passage.text for passage in read_corpus(agents_data / "corpus.jsonl")}
    assert len({task.instruction for task in questions}) == len(questions)
    for task in questions:
        texts = [by_title[title] for title in task.details["supporting_titles"]]
        assert holds_answer(" ".join(texts), task)


def test_search_finds_what_questions_ask_for(agents_data, questions):
    index = open_index(agents_data / "corpus.jsonl")
    single = [task for task in questions if len(task.details["supporting_titles"]) == 1]
    hits = [
        task.details["supporting_titles"][0] in [p.title for p in index.search(task.instruction, 3)] for task in single
    ]
    assert sum(hits) / len(hits) > 0.9


async def test_the_shipped_corpus_answers_a_question(agents_data, questions):
    task = next(task for task in questions if len(task.details["supporting_titles"]) == 1)
    said = [f"<search>{task.instruction}</search>", f"<answer>{task.answers[0]}</answer>"]
    flow = workflow(corpus=agents_data / "corpus.jsonl")
    episode = await flow.run(task, scripted_agents(task, {"answerer": said}))
    assert (episode.metrics["success"], episode.metrics["retrieved"]) == (1.0, 1.0)


def test_an_index_is_read_as_well_as_a_corpus(agents_data, questions, tmp_path):
    SearchIndex.build(read_corpus(agents_data / "corpus.jsonl")).save(tmp_path / "index")
    assert len(workflow(corpus=tmp_path / "index").index(questions[0])) == 182
