"""Search and research with scripted roles: what they find, answer and cite is what their rewards and figures say."""

from __future__ import annotations

import json

import pytest

from orchestai.agents.workflows.research import Research
from orchestai.agents.workflows.search import Search
from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Scored
from orchestai.sandbox import Sandbox
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from support.agents.scripted import scripted_agents

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


def rewards(episode) -> list[tuple[str, float | None]]:
    """Each act's reward, in order of conversations; the last act's is its role's."""
    return [
        (each.role, each.reward if turn is each.turns[-1] else turn.reward)
        for each in episode.trajectories
        for turn in each.turns
    ]


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


async def test_an_optimiser_without_a_query_searches_for_the_question(sandbox):
    episode = await search(sandbox, ["\x00"], ["?"], ["<answer>the Loire</answer>"], max_refinement_iterations=1)
    assert episode.outcome == Scored(0.0)
    assert episode.metrics.items() >= {"queries": 0, "retrieval_recall": 0, "final_success": 0}.items()


@pytest.mark.parametrize("words", ["", "I do not know.", "<query></query>", "<query> </query>"])
async def test_an_optimiser_is_not_paid_for_the_question_itself(sandbox, words):
    """It earned 0.5 for what the question found, and in a later round for what had been found before."""
    episode = await search(sandbox, [words], ["It is in Paris."], [ANSWER])
    assert episode.outcome == Scored(1.0)
    assert ("query_optimiser", 0) in rewards(episode)
    rounds = ["<query>Eiffel Tower</query>", words, "<query>Paris river</query>"]
    answers = ["<missing>the river</missing>"] * 2 + [ANSWER]
    episode = await search(sandbox, rounds, ["It is in Paris."] * 3, answers, max_refinement_iterations=3)
    assert [reward for role, reward in rewards(episode) if role == "query_optimiser"] == [0.5, 0, 1]


async def test_guesses_in_a_query_find_nothing_where_no_titles_are_known(sandbox):
    task = TASK.model_copy(update={"details": {"passages": PASSAGES}})
    for query, worth in (("Loire Rhine Seine Thames", 0), ("capital of France", 1)):
        episode = await search(sandbox, [f"<query>{query}</query>"], ["?"], ["?"], task)
        assert ("query_optimiser", worth) in rewards(episode)


async def test_a_searcher_is_paid_for_a_note_not_for_a_copy(sandbox):
    """Whole passages, guesses, the question and nothing at all earned 1."""
    copied = " ".join(passage["text"] for passage in PASSAGES)
    guesses = "Loire Rhine Seine Thames"
    notes = {
        "Paris lies on the Seine.": 1,
        copied: 10 / len(copied.split()),
        guesses: 1,  # the passages that it read do have it
        "": 0,
        "?": 0,
        TASK.instruction: 0,
    }
    for note, worth in notes.items():
        episode = await search(
            sandbox, ["<query>Eiffel Tower Paris river</query>"], [note], [ANSWER], passages=3, note_words=10
        )
        assert episode.outcome == Scored(1.0)
        assert ("searcher", pytest.approx(worth)) in rewards(episode)
    blind = await search(sandbox, ["<query>Tokyo</query>"], [guesses], ["?"])
    assert ("searcher", 0) in rewards(blind), "what it read does not say so"
    bridge = await search(sandbox, ["<query>Eiffel Tower</query>"], ["It is in Paris."], [ANSWER])
    assert ("searcher", 1) in rewards(bridge), "half of the way, with which the answerer came to the answer"


async def test_rounds_and_queries_have_their_limits(sandbox):
    many = "<query>Seine</query>" * 9
    episode = await search(sandbox, [many] * 2, [""] * 4, ["<missing>x</missing>"] * 2, max_queries=2)
    assert episode.metrics.items() >= {"total_iterations": 2, "queries": 4, "searcher_runs": 4}.items()


async def test_tasks_without_passages_need_a_corpus(sandbox, tmp_path):
    task = TASK.model_copy(update={"details": {}})
    with pytest.raises(UserError, match=r"set agents\.workflow_args\.corpus"):
        await search(sandbox, [], [], [], task)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"p{i}"} | passage) + "\n" for i, passage in enumerate(PASSAGES)))
    episode = await search(sandbox, ["<query>river France</query>"], ["The Seine."], [ANSWER], task, corpus=corpus)
    assert episode.outcome == Scored(1.0)
    assert episode.metrics["retrieval_recall"] == 1


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


async def test_a_critic_that_accepts_false_citations_earns_nothing(sandbox):
    episode = await research(sandbox, [FALSE], [ACCEPT])
    assert episode.outcome == Scored(0.0)
    assert episode.metrics.items() >= {"false_citations": 2, "coverage": 1, "critic_accuracy": 0, "success": 0}.items()


async def test_searchers_work_side_by_side_each_at_its_question(sandbox):
    planner = "".join(f"<question>Question {i}?</question>" for i in range(5))
    searcher = {"0": "Built until 1889 [0].", "1": "Paris lies on the Seine [1].", "2": "nothing"}
    episode = await research(
        sandbox, [GOOD], [ACCEPT], planner, lambda messages: searcher[messages[1]["content"][9]], max_subquestions=3
    )
    assert episode.metrics.items() >= {"subquestions": 3, "searcher_runs": 3, "searches": 0}.items()
    assert [reward for role, reward in rewards(episode) if role == "searcher"] == [0.5, 0.5, 0]
    assert (
        "Question 1?\nParis lies on the Seine [1]."
        in next(e for e in episode.trajectories if e.role == "writer").transcript[1][1]
    )


async def test_a_planner_that_divides_nothing_earns_nothing(sandbox):
    """It earned the report's whole reward: the question itself was searched for in its place."""
    for words in ("", "Let me think.", "<question></question>"):
        episode = await research(sandbox, [GOOD], [ACCEPT], words)
        assert episode.outcome == Scored(1.0)
        assert ("planner", 0) in rewards(episode)
        assert episode.metrics["subquestions"] == 0


async def test_notes_without_sources_or_of_everything_earn_little(sandbox):
    """A list of numbers that might be asked for earned 0.5, and so did all that was read."""
    listed = " ".join(map(str, range(1850, 1900)))
    copied = " ".join(f"{s}. [{i}]" for i, each in enumerate(PASSAGES) for s in each["text"].rstrip(".").split(". "))
    for notes, worth in (
        (listed, 0),
        (f"{listed} [0].", 0),
        ("Built until 1889 [0].", 0.5),
        (copied, 10 / len(copied.split())),
    ):
        episode = await research(sandbox, [GOOD], [ACCEPT], searcher=[notes], note_words=10)
        assert ("searcher", pytest.approx(worth)) in rewards(episode)


@pytest.mark.parametrize("words", ["", "\x00\x7f", "[" * 3000, "<search></search>", "<question></question>"])
async def test_whatever_roles_write_is_a_zero_at_worst(sandbox, words):
    episode = await research(sandbox, [words] * 2, [words] * 2, words, [words] * 9)
    assert episode.outcome == Scored(0.0)
    found = await search(sandbox, [words] * 2, [words] * 9, [words] * 2)
    assert found.outcome == Scored(0.0)


async def test_the_sample_reports_can_be_written_from_the_sample_corpus(sandbox, repository):
    """The passages that a task names, each cited, earn the whole reward."""
    corpus = repository / "data" / "agents" / "corpus.jsonl"
    passages = {each["title"]: each for each in map(json.loads, corpus.read_text().splitlines())}
    tasks = load_suite("written", str(repository / "data" / "agents" / "research.jsonl"))
    assert len(tasks.split("train")) > len(tasks.split("test")) > 0
    for task in tasks.split("test"):
        found = [passages[title] for title in task.details["supporting_titles"]]
        report = " ".join(f"{s}. [{each['id']}]" for each in found for s in each["text"].rstrip(".").split(". "))
        workflow = Research(Research.Args(corpus=corpus), sandbox)
        script = {"planner": ["?"], "searcher": ["?"], "writer": [report], "critic": [ACCEPT]}
        episode = await workflow.run(task, scripted_agents(task, script))
        assert episode.metrics["coverage"] == 1
        assert episode.metrics["citation_precision"] == 1


async def test_notes_that_say_yes_and_no_state_no_answer(sandbox):
    task = TASK.model_copy(update={"answers": ("yes",)})
    episode = await search(sandbox, ["<query>Eiffel Tower</query>"], ["yes no"], ["<answer>no</answer>"], task)
    assert ("searcher", 0.0) in rewards(episode)
    assert episode.metrics["searcher_success_rate"] == 0
