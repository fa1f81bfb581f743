"""Further plans from written ones: what people say around a step, with the words that somebody else has for another.

A planner has to tell a step's words from everything else that is said. That does not depend on what the step does, so
any words that fit grammatically make another example, as pasted patches do for images (CutMix, Yun et al. 2019, arXiv
1905.04899). Only chains are varied: there a step takes what the one before it gave, whatever its words are, while in
other plans later words may speak of the step ("the reversed text").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from orchestai.data.training_file import TrainingExample

_SHARE = 0.5
"""Of a plan's steps that get other words."""
_TRIES = 4
_DETERMINERS = {"the", "a", "an", "its", "their", "those", "that", "each", "every", "all", "both", "no", "one", "two"}
_OPENINGS = _DETERMINERS | {"how", "what", "which", "whether", "only", "if"}
_ENDINGS = ("ing", "ed")


class _Phrase(NamedTuple):
    """The words of a step, and its type."""

    words: str
    task_type: str


class _Form(NamedTuple):
    """What decides where words fit: how they begin, and whether they begin a chain or go on from another step."""

    begins: str
    first: bool


def exchange_phrases(examples: Sequence[TrainingExample], count: int, *, seed: int) -> list[TrainingExample]:
    """Up to `count` variations of the training examples that are chains of steps with words of their own.

    Each step's words are exchanged, half of the time, for words of another example's step that begin alike, together
    with their type; what is said around them stays. No two instructions are the same, nor equal to a given one.
    """
    chains = [example for example in examples if example.split == "train" and _is_chain(example)]
    phrases: dict[_Form, list[_Phrase]] = defaultdict(list)
    for example in chains:
        for place, phrase in enumerate(_phrases(example)):
            phrases[_form(phrase, place)].append(phrase)
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    for _ in range(_TRIES * count):
        if not chains or len(added) == count:
            break
        varied = _varied(rng.choice(chains), phrases, rng)
        if varied.instruction not in seen:
            seen.add(varied.instruction)
            added.append(varied)
    return added


def _is_chain(example: TrainingExample) -> bool:
    steps, spans = example.workflow.subtasks, example.spans
    return (
        len(spans) == len(steps)
        and all(phrase.words.strip() for phrase in _phrases(example))
        and all(before[1] <= after[0] for before, after in pairwise(spans))
        and not steps[0].depends_on
        and all(step.depends_on == (before.id,) for before, step in pairwise(steps))
    )


def _phrases(example: TrainingExample) -> list[_Phrase]:
    steps = zip(example.workflow.subtasks, example.spans, strict=True)
    return [_Phrase(example.instruction[slice(*span)], subtask.task_type) for subtask, span in steps]


def _varied(example: TrainingExample, phrases: dict[_Form, list[_Phrase]], rng: Random) -> TrainingExample:
    text, longer = example.instruction, 0
    changes: dict[str, dict[str, Any]] = {}
    for place, phrase in enumerate(_phrases(example)):
        subtask, start = example.workflow.subtasks[place], example.spans[place][0] + longer
        words, task_type = phrase
        if rng.random() < _SHARE:
            words, task_type = rng.choice(phrases[_form(phrase, place)])
            initial = str.upper if phrase.words[0].isupper() else str.lower
            words = initial(words[0]) + words[1:]
            text = text[:start] + words + text[start + len(phrase.words) :]
            longer += len(words) - len(phrase.words)
        changes[subtask.id] = {"instruction": words, "task_type": task_type, "span": (start, start + len(words))}
    varied = {"instruction": text, "workflow": example.workflow.replace(changes), "augmented": True}
    return example.model_copy(update=varied)


def _form(phrase: _Phrase, place: int) -> _Form:
    word = phrase.words.split()[0].lower()
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    return _Form(word if word in _OPENINGS else ending, first=place == 0)
