"""The tools for what needs no model answer everyday requests in English and German, or decline them."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.config import FIRST_POOL, load_config
from orchestai.workers.base import Request, WorkerCard, WorkerError
from orchestai.workers.pool import worker_cards
from orchestai.workers.tools.everyday import answer
from orchestai.workers.tools.everyday.evaluator import CHANGES, MEANINGS, Evaluator
from orchestai.workers.tools.everyday.language import DOMAINS, language

ANSWERED = """
What is 12 * 7? => 84
how much is 15% of 80 => 12
What is 1000 divided by 16, rounded to the nearest whole number? => 63
How much is $12.50 plus $3.75? => $16.25
Is 91 a prime number? => No
was ist die Hälfte von 90 => 45
Ziehe 5 von 20 ab => 15
Wieviel Prozent von 250 sind 75? => 30%
3/4 cup in ml => 177.441 ml (US)
How many centimeters is 6 foot 2? => 187.96 centimeters
what day of the week is 3 March 2027 => Wednesday
how many days until Christmas => 26 days
How many days are there between 1 March and 24 December 2026? => 298 days
How many days until Thanksgiving? => 361 days
last Sunday => Sunday, 22 November 2026
Welches Datum ist in 3 Wochen? => Sonntag, 20. Dezember 2026
Wie spät ist es? => 14:05
how many words are in: I came, I saw => 4
How many r's are in strawberry? => 3
replace a with o in banana => bonono
what is the third letter of the word planet => a
Order these names alphabetically: Zoe, Ádám, Mia => Ádám, Mia, Zoe
What's the largest of 3 km, 500 m and 2 miles? => 2 miles
Order the following from longest to shortest: fig, banana, kiwi => banana, kiwi, fig
List the unique numbers in 3,1,3,2,1 => 3, 1, 2
Berechne den Mittelwert von 3,5 und 4,5 => 4
How many sentences: Dr. Smith came home. He was tired. => 2
"""
DECLINED = """
I have 5 apples and buy 3 oranges. How many apples do I have?
Translate good morning into French
write a poem about 12 cats
Reverse the word stone and translate it into French
how many letters are in the alphabet
How many people live in Berlin, Hamburg and Munich?
count the words in: the cat and the dog, ignoring duplicates
A box holds 12 eggs. How many boxes do 60 eggs need?
how much is 100 dollars in euros
what time is it in Tokyo
What is 5?
A jacket costs 80 dollars and is 15% off. What do I pay?
Anna hat 5 Äpfel und isst 2. Wie viele bleiben übrig?
If I drive 240 km in 3 hours, what is my average speed?
divide 5 by 0
2 ^ 9 ^ 9 ^ 9
write it in capitals
Erinnere mich in 3 Tagen an die Rechnung
"""
POOL = (WorkerCard("sums", "adds numbers", 0.0, "tool"),)


def ask(words: str, *inputs: str, domains: tuple[str, ...] = DOMAINS) -> str | None:
    """The first answer of a tool; None where all decline."""
    request = Request(words, inputs={str(i): text for i, text in enumerate(inputs)})
    for domain in domains:
        try:
            return answer(request, domain, POOL, lambda: datetime(2026, 11, 29, 14, 5))
        except WorkerError:
            continue
    return None


def test_what_needs_no_model_is_answered_and_what_needs_more_is_declined() -> None:
    answered = dict(line.split(" => ") for line in ANSWERED.strip().splitlines())
    assert {words: ask(words) for words in answered} == answered
    assert [words for words in DECLINED.strip().splitlines() if ask(words) is not None] == []


def test_a_step_works_on_what_the_steps_before_gave() -> None:
    assert ask("then write it in capitals", "enots") == "ENOTS"
    assert ask("double the result", "16.25 km") == "32.5 km"
    assert ask("und sortiere sie absteigend", "3, 11, 5") == "11, 5, 3"
    assert ask("add them up", "4", "8") == "12"
    assert ask("write it in capitals", "one", "two") is None, "which of them?"


def test_questions_about_the_program_are_answered_from_its_pool() -> None:
    for words in (
        "what can you do?",
        "Which workers do you have?",
        "Was kannst du alles?",
        "Welche Werkzeuge hast du?",
    ):
        said = ask(words)
        assert said is not None
        assert "sums: adds numbers" in said
        assert "orchestai init --server" in said
    for words in ("who are you?", "Wer bist du?", "which version are you"):
        assert "OrchestAI" in (ask(words) or "")


@pytest.mark.parametrize("code", ["en", "de"])
def test_every_rule_means_something_and_every_unit_is_read(code: str) -> None:
    grammar = language(code)
    known = {*CHANGES, *MEANINGS, *grammar.says, *dir(Evaluator)}
    for rule in grammar.rules:
        name = rule.alias or str(rule.origin.name)
        inlined = name.startswith("_") or (rule.options.expand1 and not rule.alias)
        assert inlined or name.removesuffix("_swapped") in known, name
    for name in grammar._units:
        tree = grammar.parse(f"3 {name} in {name}", "units")
        assert tree is not None, name
        assert tree.data.startswith("convert"), name


@settings(deadline=None)
@given(st.lists(st.integers(-999, 999), min_size=2, max_size=5), st.sampled_from([("plus", 1), ("minus", -1)]))
def test_sums_are_exact(cents: list[int], operator: tuple[str, int]) -> None:
    word, sign = operator
    numbers = [Fraction(cent, 100) for cent in cents]
    said = ask("what is " + f" {word} ".join(f"{float(number):.2f}" for number in numbers), domains=("arithmetic",))
    assert said is not None
    assert Fraction(said) == numbers[0] + sign * sum(numbers[1:])


def test_the_first_pool_has_a_free_tool_for_each_domain() -> None:
    config = load_config(FIRST_POOL)
    tools = {worker.tool for worker in config.workers.pool.values()}
    assert tools >= {"calculator", *DOMAINS[1:]}
    assert all(card.price_usd == 0 for card in worker_cards(config.workers) if card.kind == "tool")
