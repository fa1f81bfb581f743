"""The catalogue of one-step operations, by the type of what they work on."""

from orchestai.tasks.composition.catalogue import combine, dates, dicts, integers, numbers, strings, words
from orchestai.tasks.composition.operation import Operation

EVERY: tuple[Operation, ...] = (
    *strings.OPERATIONS,
    *numbers.OPERATIONS,
    *words.OPERATIONS,
    *integers.OPERATIONS,
    *dicts.OPERATIONS,
    *dates.OPERATIONS,
    *combine.OPERATIONS,
)
