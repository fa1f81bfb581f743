"""The suite's questions from its seed: what they compute, their words, answers and reference decompositions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from orchestai.tasks.task import REFERENCE_OUTPUTS, Task
from orchestai.workflow import Subtask, Workflow
from orchestai_almanac import wording
from orchestai_almanac.attributes import ATTRIBUTES, OF_KIND, Attribute
from orchestai_almanac.computation import Computation, Step, str_of
from orchestai_almanac.marked import read_marks
from orchestai_almanac.values import Quantity
from orchestai_almanac.wording import QuestionKind
from orchestai_almanac.world import Thing, World, world

SEED = 7
WEIGHTS: dict[QuestionKind, int] = {
    "value": 14,
    "converted": 12,
    "linked": 16,
    "weekday": 6,
    "later": 6,
    "difference": 7,
    "sum": 7,
    "years": 8,
    "days": 6,
    "comparison": 14,
    "chosen": 4,
}
BUCKETS = 10


@dataclass(frozen=True)
class Split:
    """How many questions, from which buckets of computations.

    Attributes:
        testing: whether wordings that training never showed occur.
        unlike: a split none of whose computations is in this one.
    """

    name: str
    size: int
    buckets: range
    testing: bool = False
    unlike: str = ""


SPLITS: dict[str, Split] = {
    split.name: split
    for split in (
        Split("train", 1600, range(3, BUCKETS)),
        Split("validation", 200, range(0, 1)),
        Split("test", 200, range(1, 3), testing=True),
        Split("fresh", 300, range(1, 3), testing=True, unlike="test"),
    )
}
"""A computation's bucket is a hash of its graph, so no two splits compute the same. `test` was looked at while the
suite was made; `fresh` was not."""


@dataclass(frozen=True)
class Question:
    """A question before it is a task.

    Attributes:
        marked: its words, in which the words of each step are marked.
        outputs: what each step gives where all goes well: pages, values as pages write them, things as they are named
            in the question.
        written: the answer.
    """

    kind: QuestionKind
    computation: Computation
    written: str
    marked: str
    outputs: tuple[str, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """The answer as it is written, and, where the question names what may be the answer, in its words."""
        return tuple(dict.fromkeys((self.written, self.outputs[-1])))


def bucket(computation: Computation) -> int:
    return int(computation.signature[:8], 16) % BUCKETS


def generate(split: Split, seed: int = SEED) -> list[Task]:
    """The tasks of a split; the same every time, whichever other splits are generated."""
    return [_task(split, number, question) for number, question in enumerate(generate_questions(split, seed))]


def generate_questions(split: Split, seed: int = SEED) -> list[Question]:
    """The questions of a split, of which no two compute the same or have the same words."""
    rng = Random(f"almanac/{seed}/{split.name}")
    found: list[Question] = []
    seen: set[str] = set()
    if split.unlike:
        seen |= {question.computation.signature for question in generate_questions(SPLITS[split.unlike], seed)}
    for question in _questions(world(), rng, testing=split.testing):
        key = question.computation.signature
        if bucket(question.computation) in split.buckets and not {key, question.marked} & seen:
            seen |= {key, question.marked}
            found.append(question)
        if len(found) == split.size:
            return found
    raise AssertionError("there is always another question")


def _questions(country: World, rng: Random, *, testing: bool) -> Iterator[Question]:
    kinds = list(WEIGHTS)
    while True:
        kind = rng.choices(kinds, list(WEIGHTS.values()))[0]
        try:
            yield _Writer(country, rng, testing).question(kind)
        except ValueError:
            continue  # a tie, or two things that cannot be compared


class _Writer:
    """Writes one question."""

    def __init__(self, country: World, rng: Random, testing: bool) -> None:
        self.country = country
        self.rng = rng
        self.testing = testing

    def question(self, kind: QuestionKind) -> Question:
        if kind in ("difference", "sum", "years", "days"):
            return self._of_two(kind)
        if kind in ("comparison", "chosen"):
            return self._of_choice(kind)
        return self._of_one(kind)

    def _of_one(self, kind: QuestionKind) -> Question:
        types = {"converted": ("measure",), "linked": ("name",), "weekday": ("date",), "later": ("date",)}
        asked = self._attribute(types.get(kind, ("date", "count", "measure", "name")))
        thing = self._thing(asked)
        words = {"a": self._mention(thing), "n": self._noun(asked)}
        steps: tuple[Step, ...] = _read(thing, asked, 0)
        if kind == "converted":
            unit = self._unit(thing.facts[asked.name])
            words["u"] = wording.in_unit(unit, self.rng, testing=self.testing)
            steps += (Step("calculate", ("convert", unit), (1,)),)
        elif kind == "linked":
            assert asked.target is not None
            further = self.rng.choice(OF_KIND[asked.target])
            words |= {"k": asked.target, "m": self._noun(further)}
            steps += (Step("lookup", (asked.target,), (1,)), Step("extract", (further.name,), (2,)))
        elif kind == "weekday":
            steps += (Step("calculate", ("weekday",), (1,)),)
        elif kind == "later":
            words["x"] = str(self.rng.choice((10, 30, 45, 90, 100, 150, 200, 365, 500, 1000)))
            steps += (Step("calculate", ("later", words["x"]), (1,)),)
        return self._finished(kind, steps, words)

    def _of_two(self, kind: QuestionKind) -> Question:
        wanted = ("date",) if kind in ("years", "days") else ("measure",)
        first, second = self._attribute(wanted), self._attribute(wanted)
        a, b = self._thing(first), self._thing(second)
        if a is b:
            raise ValueError("one thing twice")
        words = {"a": self._mention(a), "b": self._mention(b), "n": self._noun(first), "m": self._noun(second)}
        what: tuple[str, ...] = (kind,)
        if kind in ("difference", "sum"):
            value, other = a.facts[first.name], b.facts[second.name]
            assert isinstance(value, Quantity)
            assert isinstance(other, Quantity)
            unit = self._unit(value)
            other.to(unit)
            what = (kind, unit)
            words |= {"w": wording.UNIT_WORDS[unit], "u": wording.in_unit(unit, self.rng, testing=self.testing)}
        steps = (*_read(a, first, 0), *_read(b, second, 2), Step("calculate", what, (1, 3)))
        return self._finished(kind, steps, words)

    def _of_choice(self, kind: QuestionKind) -> Question:
        asked = self.rng.choice([found for found in ATTRIBUTES if found.superlatives])
        a, b = self.rng.sample(self.country.of(asked.kind), 2)
        words = {"a": self._mention(a), "b": self._mention(b), "n": self._noun(asked)}
        larger = self.rng.random() < 0.5
        words["s"] = asked.superlatives[0 if larger else 1]
        compare = Step("compare", ("larger" if larger else "smaller", a.name, b.name), (1, 3))
        steps: tuple[Step, ...] = (*_read(a, asked, 0), *_read(b, asked, 2), compare)
        if kind == "chosen":
            further = self.rng.choice([found for found in OF_KIND[asked.kind] if found is not asked])
            words |= {"k": asked.kind, "m": self._noun(further)}
            steps += (Step("lookup", (asked.kind,), (4,)), Step("extract", (further.name,), (5,)))
        return self._finished(kind, steps, words)

    def _finished(self, kind: QuestionKind, steps: tuple[Step, ...], words: dict[str, str]) -> Question:
        computation = Computation(steps)
        outputs = computation.texts(self.country)
        written = str_of(computation.run(self.country)[-1])
        for i, step in enumerate(steps):
            if step.type == "compare":
                outputs[i] = words["a" if outputs[i] == step.what[1] else "b"]
        template = wording.TEMPLATES[kind].draw(self.rng, testing=self.testing)
        marked = template.format(**words)
        opening = next(i for i, character in enumerate(marked) if character.isalpha())
        marked = marked[:opening] + marked[opening].upper() + marked[opening + 1 :]
        return Question(kind, computation, written, marked, tuple(outputs))

    def _attribute(self, types: tuple[str, ...]) -> Attribute:
        return self.rng.choice([found for found in ATTRIBUTES if found.type in types and found.name != "weight"])

    def _thing(self, asked: Attribute) -> Thing:
        return self.rng.choice(self.country.of(asked.kind))

    def _mention(self, thing: Thing) -> str:
        return wording.mention(thing, self.country, self.rng, testing=self.testing)

    def _noun(self, asked: Attribute) -> str:
        return wording.noun(asked, self.rng, testing=self.testing)

    def _unit(self, value: object) -> str:
        """Another unit of about the same size than the page's, mostly; sometimes the page's own."""
        assert isinstance(value, Quantity)
        other = {"m": "ft", "ft": "m", "km": "mi", "mi": "km"}[value.unit]
        return other if self.rng.random() < 0.7 else value.unit


def _read(thing: Thing, asked: Attribute, first: int) -> tuple[Step, ...]:
    """Look a thing up as step `first`, and read an attribute off its page."""
    return Step("lookup", (thing.kind, thing.name)), Step("extract", (asked.name,), (first,))


def _task(split: Split, number: int, question: Question) -> Task:
    text, spans = read_marks(question.marked)
    return Task(
        task_id=f"almanac/{split.name}/{number}",
        suite="almanac",
        split=split.name,
        instruct_prompt=text,
        answers=question.answers,
        scorer="almanac",
        reference=Workflow(
            [
                Subtask(
                    id=str(i + 1),
                    instruction=text[slice(*spans[i])],
                    task_type=step.type,
                    depends_on=tuple(str(parent + 1) for parent in step.parents),
                    span=spans[i],
                )
                for i, step in enumerate(question.computation.steps)
            ]
        ),
        details={REFERENCE_OUTPUTS: {str(i + 1): text for i, text in enumerate(question.outputs)}},
        source="generated by orchestai_almanac, Apache-2.0",
    )
