"""Search and research with scripted roles: what they find, answer and cite is what their rewards and figures say."""

from __future__ import annotations

import pytest

from orchestai.agents.workflows.research import Research
from orchestai.agents.workflows.search import Search
from orchestai.errors import InfrastructureError
from orchestai.outcome import Scored
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from support.agents.scripted import rewards, scripted_agents

PASSAGES = [
    {"title": "Eiffel Tower", "text": "The Eiffel Tower stands in Paris. Gustave Eiffel built it until 1889."},
    {"title": "Paris", "text": "Paris is the capital of France and lies on the river Seine."},
    {"title": "Tokyo Skytree", "text": "The Tokyo Skytree is 634 metres tall. It was opened in 2012."},
]
TASK = Task(
    task_id="h",
    suite="hotpotqa",
    instruct_prompt="On which river lies the city of the Eiffel Tower?",
    answers=("Seine",),
    details={"passages": PASSAGES, "supporting_titles": ["Eiffel Tower", "Paris"], "facts": ["1889", "Seine"]},
)
ANSWER = "<answer>the Seine</answer>"
GOOD = "The Eiffel Tower in Paris was built until 1889 [0]. Paris lies on the river Seine [1]."
FALSE = "The Eiffel Tower in Paris was built until 1889 [2]. Paris lies on the river Seine [77]."
ACCEPT, REVISE = "<verdict>ACCEPT</verdict>", "[77] does not exist. <verdict>REVISE</verdict>"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


async def search(sandbox, optimizer, searcher, answerer, task=TASK, **settings):
    workflow = Search(Search.Args(**({"passages": 1} | settings)), sandbox)
    script = {"query_optimiser": optimizer, "searcher": searcher, "answerer": answerer}
    return await workflow.run(task, scripted_agents(task, script))


async def research(
    sandbox, writer, critic, planner="<question>Where is the Eiffel Tower?</question>", searcher=None, **settings
):
    workflow = Research(Research.Args(**settings), sandbox)
    found = searcher or ["<search>Eiffel Tower</search>", "It was built until 1889 [0]."]
    script = {"planner": [planner], "searcher": found, "writer": writer, "critic": critic}
    return await workflow.run(TASK, scripted_agents(TASK, script))


# --- search --------------------------------------------------------------------------------------------------------


async def test_two_queries_find_both_articles_and_the_answer(sandbox):
    queries = "<query>Eiffel Tower</query><query>Paris river</query>"
    episode = await search(sandbox, [queries], ["It is in Paris.", "On the Seine."], [ANSWER])
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("query_optimiser", 1), ("answerer", 1), ("searcher", 1), ("searcher", 1)]
    expected = {
        "success": 1,
        "final_success": 1,
        "query_optimiser_runs": 1,
        "queries": 2,
        "retrieval_recall": 1,
        "searcher_runs": 2,
        "searcher_success_rate": 0.5,
        "answerer_attempts": 1,
        "total_iterations": 1,
    }
    assert episode.metrics.items() >= expected.items()
    read = [each.transcript[1][1] for each in episode.trajectories if each.role == "searcher"]
    assert "Gustave Eiffel" in read[0]
    assert "river Seine" in read[1]


async def test_what_is_missing_is_searched_for_in_another_round(sandbox):
    optimizer = ["<query>Eiffel Tower</query>", "<query>Paris river</query>"]
    answers = ["<missing>the river of Paris</missing>", ANSWER]
    episode = await search(sandbox, optimizer, ["It is in Paris.", "On the Seine."], answers)
    assert episode.outcome == Scored(1.0)
    assert rewards(episode)[:2] == [("query_optimiser", 0.5), ("query_optimiser", 1)]
    assert episode.metrics.items() >= {"total_iterations": 2, "queries": 2, "retrieval_recall": 1}.items()
    assert "Still missing: the river of Paris" in episode.trajectories[0].transcript[3][1]


def look_up(query: str) -> list[object]:
    """A search engine: a text by itself, and one with a name; it is down for one query."""
    if query == "down":
        raise ConnectionError("refused")
    return ["Nothing to see.", {"id": "p1", "title": "Paris", "text": PASSAGES[1]["text"]}, "never shown"]


@pytest.mark.parametrize("tool", [look_up, f"{__name__}:look_up"])
async def test_a_search_tool_of_the_user_finds_passages(sandbox, tool):
    """Also where the tasks bring passages of their own. What it cannot find, nobody has missed."""
    settings = {"search_tool": tool, "passages": 2}
    episode = await search(sandbox, ["<query>river</query>"], ["The Seine."], [ANSWER], **settings)
    assert episode.outcome == Scored(1.0)
    assert "Nothing to see." in episode.text
    assert "never shown" not in episode.text
    assert episode.metrics["retrieval_recall"] == 0.5
    with pytest.raises(InfrastructureError, match=r"search_tool look_up: ConnectionError: refused"):
        await search(sandbox, ["<query>down</query>"], [], [], **settings)


# --- research ------------------------------------------------------------------------------------------------------


async def test_a_report_whose_citations_hold_is_worth_all(sandbox):
    episode = await research(sandbox, [GOOD], [ACCEPT])
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("planner", 1), ("searcher", None), ("searcher", 0.5), ("writer", 1), ("critic", 1)]
    expected = {
        "success": 1,
        "final_success": 1,
        "planner_runs": 1,
        "subquestions": 1,
        "searcher_runs": 1,
        "searches": 1,
        "writer_attempts": 1,
        "critic_checks": 1,
        "critic_accuracy": 1,
        "coverage": 1,
        "citation_precision": 1,
        "citation_recall": 1,
        "false_citations": 0,
        "total_iterations": 1,
    }
    assert episode.metrics.items() >= expected.items()


async def test_a_critic_that_sees_false_citations_has_the_report_written_anew(sandbox):
    episode = await research(sandbox, [FALSE, GOOD], [REVISE, ACCEPT])
    assert episode.outcome == Scored(1.0)
    assert [reward for role, reward in rewards(episode) if role in ("writer", "critic")] == [0, 1, 1, 1]
    checked = next(each for each in episode.trajectories if each.role == "critic").transcript[1][1]
    assert "[77] there is no such passage" in checked
    assert "[2] Tokyo Skytree" in checked
    assert "[77] does not exist" in episode.trajectories[2].transcript[3][1]
