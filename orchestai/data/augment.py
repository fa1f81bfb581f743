"""Further training examples from logged ones: in other words, with branches in another order, with other operations.

A step gets other words only where some logged execution shows which worker does them well: the words are what the
worker reads, so a worker that was right for one wording may be wrong for another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from orchestai.data.training_file import TrainingExample
from orchestai.tasks.suites import step_catalogs
from orchestai.tasks.visible_examples import clean

_SHARE = 0.5
"""Of a plan's steps that may get other words, those that do."""
_TRIES = 4
_DETERMINERS = {"the", "a", "an", "its", "their", "those", "that", "each", "every", "all", "both", "no", "one", "two"}
_OPENINGS = _DETERMINERS | {"how", "what", "which", "whether", "only", "if"}
_ENDINGS = ("ing", "ed")


class _Phrase(NamedTuple):
    """The words of a step, and its type."""

    words: str
    task_type: str


class _Form(NamedTuple):
    """What decides where words fit: how they begin, and which steps they take: by how far away in the text."""

    begins: str
    takes: tuple[int, ...]


def exchange_phrases(examples: Sequence[TrainingExample], count: int, *, seed: int) -> list[TrainingExample]:
    """Up to `count` variations of the training examples whose steps have words of their own.

    The words of each step that may vary are exchanged, half of the time, for words of another example's step that begin
    alike and take as many steps from the same places, together with their type; what is said around them stays. No two
    instructions are the same, nor equal to a given one.
    """
    varying = [(one, forms) for one in examples if one.split == "train" and (forms := _forms(one))]
    phrases: dict[_Form, list[_Phrase]] = defaultdict(list)
    for example, forms in varying:
        for place, form in forms.items():
            phrases[form].append(_phrases(example)[place])
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    for _ in range(_TRIES * count):
        if not varying or len(added) == count:
            break
        varied = _with_other_phrases(*rng.choice(varying), phrases, rng)
        if varied.instruction not in seen:
            seen.add(varied.instruction)
            added.append(varied)
    return added


def _forms(example: TrainingExample) -> dict[int, _Form]:
    """The steps that may get other words, by place; none where words are missing or shared."""
    spans, parents = example.spans, example.workflow.dependencies()
    order = sorted(range(len(spans)), key=spans.__getitem__)
    if len(spans) != len(parents) or any(spans[a][1] > spans[b][0] for a, b in pairwise(order)):
        return {}
    phrases = _phrases(example)
    if not all(phrase.words.strip() for phrase in phrases):
        return {}
    rank = {place: i for i, place in enumerate(order)}
    forms = {}
    for place, phrase in enumerate(phrases):
        taken_by = [child for child, taken in enumerate(parents) if place in taken]
        beside = all(abs(rank[child] - rank[place]) == 1 and len(parents[child]) == 1 for child in taken_by)
        if beside and len(taken_by) < 2:
            takes = tuple(sorted(rank[parent] - rank[place] for parent in parents[place]))
            # the first word is a request (of no kind of its own), an -ing or -ed form, or a word like "the"
            word = phrase.words.split()[0].lower()
            ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
            forms[place] = _Form(word if word in _OPENINGS else ending, takes)
    return forms


def _phrases(example: TrainingExample) -> list[_Phrase]:
    steps = zip(example.workflow.subtasks, example.spans, strict=True)
    return [_Phrase(example.instruction[slice(*span)], subtask.task_type) for subtask, span in steps]


def _with_other_phrases(
    example: TrainingExample, forms: dict[int, _Form], phrases: dict[_Form, list[_Phrase]], rng: Random
) -> TrainingExample:
    text, longer, old = example.instruction, 0, _phrases(example)
    changes: dict[str, dict[str, Any]] = {}
    for place in sorted(range(len(old)), key=example.spans.__getitem__):
        subtask, start = example.workflow.subtasks[place], example.spans[place][0] + longer
        words, task_type = old[place]
        if place in forms and rng.random() < _SHARE:
            words, task_type = rng.choice(phrases[forms[place]])
            initial = str.upper if old[place].words[0].isupper() else str.lower
            words = initial(words[0]) + words[1:]
            text = text[:start] + words + text[start + len(old[place].words) :]
            longer += len(words) - len(old[place].words)
        changes[subtask.id] = {"instruction": words, "task_type": task_type, "span": (start, start + len(words))}
    varied = {"instruction": text, "workflow": example.workflow.replace(changes), "augmented": True}
    return example.model_copy(update=varied)


TRIES = 8
"""Times that each example is tried in vain before augmentation gives up."""


def augment(
    examples: Sequence[TrainingExample],
    count: int,
    *,
    evidence: Iterable[TrainingExample] | None,
    seed: int,
) -> list[TrainingExample]:
    """Up to `count` variations of the training examples; no two instructions are the same, nor equal to a given one.

    Examples whose steps a suite has a catalog of are varied, others and those of the validation split are not; no
    variation is a plan of a held-out split of the suite, or of a validation example. Each keeps its example's task,
    split, rewards and, for steps whose words stay, workers.

    Args:
        evidence: examples, better ones first, that show which worker does which words; None where plans have no
            workers, so that all words of theirs may be exchanged.
    """
    known = [
        (example, catalog, signature)
        for example in examples
        for catalog in step_catalogs()
        if (signature := catalog.signature(example.workflow))
    ]
    composed = [(example, catalog) for example, catalog, _ in known if example.split == "train"]
    held_out = {signature for example, _, signature in known if example.split != "train"}
    if evidence is None:
        learned = (step for example, _ in composed for step in example.workflow.subtasks)
        proven = {clean(step.instruction): step for step in learned}
    else:  # by their words, subtasks whose worker's answer was part of an execution that was learned from
        proven = {}
        for step in (step for example in evidence for step in example.workflow.subtasks if step.worker):
            proven.setdefault(clean(step.instruction), step)
    seen = {example.instruction for example in examples}
    rng = Random(seed)
    added: list[TrainingExample] = []
    vain = 0
    while composed and len(added) < count and vain < TRIES * len(composed):
        example, catalog = composed[(len(added) + vain) % len(composed)]
        variation = catalog.vary(example.workflow, proven, held_out, rng)
        if variation is None or variation.instruction in seen:
            vain += 1
            continue
        seen.add(variation.instruction)
        changes: dict[str, dict[str, Any]] = {}
        for origin, subtask in zip(variation.origin, variation.plan.subtasks, strict=True):
            before = example.workflow.subtasks[origin]
            # the type of the step that it was made from, and workers that are known to do the words
            worked = before if subtask.instruction == clean(before.instruction) else proven[subtask.instruction]
            changes[subtask.id] = {"task_type": before.task_type, "worker": worked.worker, "fallback": worked.fallback}
        workflow = variation.plan.replace(changes)
        varied = {"instruction": variation.instruction, "workflow": workflow, "augmented": True}
        added.append(example.model_copy(update=varied))
    return added
