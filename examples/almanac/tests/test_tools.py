"""The almanac's tools: each right where its card says, and none right everywhere, so that choosing matters."""

from collections import defaultdict
from pathlib import Path

import pytest

from orchestai.config import load_config
from orchestai.lm import local_models
from orchestai.tasks.task import REFERENCE_OUTPUTS
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.generation import SamplingParams, generation_key
from orchestai.workers.recording import read_recordings
from orchestai_almanac import arithmetic, comparison, desk, open_book, reading, search
from orchestai_almanac.generate import SPLITS, generate
from orchestai_almanac.scoring import says
from orchestai_almanac.world import world

ROOT = Path(__file__).resolve().parents[1]
SHIP = "Grey Tern\n| ship | no. 7 |\n| Off the slip | 1871-05-03 |\n| Keel length | 40 m |\n| Length | 48 m |"
TOWN = "Orby\nThis is told of the town Orby. The charter was granted on 3 May 1471. In 1790 only 90 people lived here."


def ask(words: str, *inputs: str) -> Request:
    return Request(words, inputs={str(i + 1): text for i, text in enumerate(inputs)})


async def test_searches_find_what_their_cards_say():
    """Exact names by the titles, namesakes and descriptions by kind, names that were only heard by their letters."""
    namesake = next(ship for ship in world().of("ship") if world().shares_name(ship) and " " not in ship.name)
    page = await search.of_kind(ask(f"the ship {namesake.name}"))
    assert page.startswith(f"{namesake.name}\n")
    assert "ship" in page.splitlines()[1]
    assert await search.titles(ask(f"the ship {namesake.name}")) != page
    described = await search.of_kind(ask(f"the bridge over the {world().of('bridge')[0].facts['river']}"))
    assert described.startswith(world().of("bridge")[0].name)
    person = world().of("person")[0].name
    assert (await search.letters(ask(f"somebody called {person[0]}{person[1]}{person[1:]}"))).startswith(person)
    with pytest.raises(WorkerError):
        await search.of_kind(ask(person))
    with pytest.raises(WorkerError):
        await search.titles(ask("nothing that has a page"))


async def test_a_search_takes_names_from_parents_and_leaves_pages():
    page = await search.of_kind(ask("that town", world().of("town")[0].name, SHIP))
    assert page.startswith(world().of("town")[0].name)


async def test_readers():
    assert await reading.fields(ask("length", SHIP)) == "48 m"
    assert await reading.synonyms(ask("launch", SHIP)) == "1871-05-03"
    assert await reading.sentences(ask("founding date", TOWN)) == "3 May 1471"
    for tool, words, page in (
        (reading.fields, "launch", SHIP),
        (reading.fields, "founding date", TOWN),
        (reading.synonyms, "charm", SHIP),
        (reading.sentences, "crew", TOWN),
        (reading.sentences, "crew", "no page"),
    ):
        with pytest.raises(WorkerError):
            await tool(ask(words, page))


@pytest.mark.parametrize(
    ("tool", "words", "inputs", "answer"),
    [
        (arithmetic.plain, "How many years lie between", ("1871", "1880"), "9 years"),
        (arithmetic.plain, "the sum in feet", ("3 ft", "2 m"), "5 ft"),
        (arithmetic.with_units, "in feet", ("100 m",), "328.1 ft"),
        (arithmetic.with_units, "the difference in kilometres", ("10 mi", "6 km"), "10.1 km"),
        (arithmetic.with_units, "How many metres together", ("10 m", "10 ft"), "13 m"),
        (arithmetic.with_dates, "on which weekday", ("20 July 1969",), "Sunday"),
        (arithmetic.with_dates, "add 30 days", ("1904-02-01",), "1904-03-02"),
        (arithmetic.with_dates, "how many full years", ("3 May 1871", "1880-05-02"), "8 years"),
        (arithmetic.with_dates, "how many days", ("1900-02-28", "March 1, 1900"), "1 days"),
        (comparison.compare, "Which is longer, the Orby or the Aldale", ("3 km", "2 mi"), "the Aldale"),
        (comparison.compare, "which of the two is older: A or B", ("1 May 1800", "1799-01-01"), "B"),
        (comparison.compare, "is Orby Light or Aldale Light newer", ("1 May 1800", "1799-01-01"), "Orby Light"),
    ],
)
async def test_arithmetic_and_comparison(tool, words, inputs, answer):
    assert await tool(ask(words, *inputs)) == answer


@pytest.mark.parametrize(
    ("tool", "words", "inputs"),
    [
        (arithmetic.with_units, "the sum", ("3 m", "4 m")),
        (arithmetic.with_units, "in feet", ("3 May 1871",)),
        (arithmetic.with_units, "in feet", ("3 t",)),
        (arithmetic.with_dates, "how many days", ("3 m", "4 m")),
        (arithmetic.with_dates, "add 99999999 days", ("1871-05-03",)),
        (comparison.compare, "Which is longer, A or B", ("3 km", "1871-05-03")),
        (comparison.compare, "Which is longer, A or B", ("3 km",)),
        (comparison.compare, "Which is it", ("3 km", "4 km")),
    ],
)
async def test_what_does_not_apply_is_refused(tool, words, inputs):
    with pytest.raises(WorkerError):
        await tool(ask(words, *inputs))


async def test_no_worker_is_good_at_everything():
    """Of the steps of a kind, each tool misses a fifth, and for nearly each step there is one that is right."""
    tools = {
        "lookup": (search.titles, search.of_kind, search.letters, search.full_text),
        "extract": (reading.fields, reading.synonyms, reading.sentences),
        "calculate": (arithmetic.plain, arithmetic.with_units, arithmetic.with_dates),
    }
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for task in generate(SPLITS["validation"]):
        outputs = task.details[REFERENCE_OUTPUTS]
        for step in task.reference.subtasks:
            request = ask(step.instruction, *(outputs[parent] for parent in step.depends_on))
            for tool in tools.get(step.task_type, ()):
                try:
                    right[step.task_type][tool.__name__].append(says(await tool(request), outputs[step.id]))
                except WorkerError:
                    right[step.task_type][tool.__name__].append(False)
    for found in right.values():
        assert all(sum(answers) < 0.8 * len(answers) for answers in found.values())
        assert sum(any(one) for one in zip(*found.values(), strict=True)) > 0.85 * len(next(iter(found.values())))


async def test_what_answers_whole_questions():
    """The desk reads plain questions; the model's worker, which is slow here, takes no parts of one."""
    ship = next(ship for ship in world().of("ship") if not world().shares_name(ship))
    assert await desk.answer(ask(f"Who is the captain of the {ship.name}?")) == ship.facts["captain"]
    strategy = open_book.OpenBook()
    whole = Request("How long is the Orby?", task="How long is the Orby?")
    assert "How long is the Orby?" in strategy.prompt(whole).text
    for part in (Request("length", task="How long is the Orby?"), ask("How long is the Orby?", SHIP)):
        with pytest.raises(WorkerError):
            strategy.prompt(part)


def test_the_recording_has_three_samples_of_every_test_question():
    """Else an evaluation would run the model for minutes."""
    config = load_config(ROOT / "config.yaml")
    (worker,) = (worker for worker in config.workers.pool.values() if worker.model)
    recorded = read_recordings([ROOT / "almanac.jsonl.gz"])
    identity = local_models.identity(config.workers.models[worker.model])
    params = SamplingParams(worker.temperature, worker.max_new_tokens, open_book.OpenBook.stop)
    for task in generate(SPLITS["test"]):
        prompt = open_book.OpenBook().prompt(Request(task.instruction, task=task.instruction))
        assert all(generation_key(identity, prompt, params, sample) in recorded for sample in range(3))
