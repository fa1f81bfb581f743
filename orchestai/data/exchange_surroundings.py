"""Further plans from given ones: what is said around all steps, exchanged for what another instruction says there.

Greetings, reasons, examples and the name of a function are no steps, whatever the steps are. So the sentences before
that of the first step, and those behind that of the last one, make another example in any other instruction's place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from orchestai.data.training_file import TrainingExample

_SHARE = 1 / 3
"""Of the examples, those that get another beginning, and those that get another end."""
_SENTENCE_END = re.compile(r"[.!?:;]+[\"')\]]*\s+|\n+")


def exchange_surroundings(
    examples: Sequence[TrainingExample], others: Sequence[TrainingExample], *, seed: int
) -> list[TrainingExample]:
    """The examples, some with the sentences before their steps, or behind them, of another example's.

    Args:
        examples: whose steps have places in the instruction.
        others: whose sentences are taken, where they are to learn from.
    """
    rng = Random(seed)
    known = [one for one in others if one.split == "train" and one.spans]
    return [_varied(one, known, rng) if one.spans and known else one for one in examples]


def _varied(example: TrainingExample, others: Sequence[TrainingExample], rng: Random) -> TrainingExample:
    before, text, behind = _parts(example)
    first = _parts(rng.choice(others))[0] if rng.random() < _SHARE else before
    last = _parts(rng.choice(others))[2] if rng.random() < _SHARE else behind
    if last and not text[-1].isspace():
        text += " "
    further = len(first) - len(before)
    places = zip(example.workflow.subtasks, example.spans, strict=True)
    moved = {subtask.id: {"span": (start + further, end + further)} for subtask, (start, end) in places}
    varied = {"instruction": first + text + last, "workflow": example.workflow.replace(moved), "augmented": True}
    return example.model_copy(update=varied)


def _parts(example: TrainingExample) -> tuple[str, str, str]:
    """The sentences before those with steps, these, and the sentences behind them."""
    text, first = example.instruction, min(start for start, _ in example.spans)
    last = max(end for _, end in example.spans)
    begins = max((found.end() for found in _SENTENCE_END.finditer(text, 0, first)), default=0)
    found = _SENTENCE_END.search(text, last)
    ends = found.end() if found else len(text)
    return text[:begins], text[begins:ends], text[ends:]
