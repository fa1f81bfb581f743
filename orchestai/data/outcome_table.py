"""What each worker scored on each query, and at what cost: the shape that all readers of outcome tables give."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.errors import UserError
from orchestai.tasks.records import Record, is_csv, read_table
from orchestai.text.syntax import parse_literal

_TRUTH = {"true": 1.0, "false": 0.0}
_ABSENT = {"", "nan", "none", "null", "na", "n/a"}
_SHOWN = 60


def number(value: Any, *, may_be_truth: bool = True) -> float | None:
    """The number that a cell says, 1 or 0 for true or false; None where it is empty.

    Raises:
        ValueError: it is no number.
    """
    written = str(value).strip().lower()
    if written in _ABSENT:
        return None
    found = _TRUTH[written] if may_be_truth and written in _TRUTH else float(written)
    return None if math.isnan(found) else found


def measures(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that the cells say, by field, and by field under `unread` the cells that are no numbers."""
    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, value in cells.items():
        try:
            found[name] = number(value, may_be_truth=name == "score")
        except ValueError:
            found[name], unread[name] = None, shown(value)
    return found | {"unread": unread}


def absent(value: Any) -> bool:
    """Whether a cell holds nothing: tables hold a NaN, or pandas' NA, for no text, too."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor unequal
        return True
    except ValueError:  # an array says it of each of its elements
        return False


def text(value: Any) -> str:
    """The text of a cell; empty where there is none."""
    return "" if absent(value) else str(value)


def shown(value: Any) -> str:
    """The beginning of a cell, in quotes, for messages."""
    written = str(value)
    return repr(written if len(written) <= _SHOWN else f"{written[:_SHOWN]}...")


def printed_list(value: Any) -> str:
    """The texts of a list that was printed into a cell, joined by blank lines; any other text as it is."""
    written = text(value)
    if written.lstrip().startswith("["):
        try:
            parts = parse_literal(written.strip())
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            return written
        if isinstance(parts, list) and all(isinstance(part, str) for part in parts):
            return "\n\n".join(parts)
    return written


def outcome_rows(file: Path) -> list[tuple[str, Record]]:
    """The rows with where each stands; an empty cell of CSV, which does not tell an empty text from none, is None."""
    rows = read_table(file, "outcome")
    if not is_csv(file):
        return rows
    return [(where, {name: value or None for name, value in row.items()}) for where, row in rows]


MEASURES: Final = ("score", "cost_usd", "latency_s", "tokens")
_HALF = re.compile("[\ud800-\udfff]")
"""Of a surrogate pair: no character, and in no file."""
_ROUNDING = 1e-9
"""By which a mean of scores may miss 0 or 1."""
_MOST = {"score": 1.0, "cost_usd": 1e5, "latency_s": 1e7, "tokens": 1e9}
"""What one answer may have at most: more is another unit, or no measurement."""
_NEAR = 0.1
"""By which a score may miss 0 or 1 and still say which of them is meant."""


class UnusableOutcomeError(ValueError):
    """A record holds no outcome that can be used; the message says why, in words that can be counted."""


@dataclass(frozen=True)
class TableOutcome:
    """What one worker did on one query. What the source does not say is None.

    Attributes:
        where: the place in the file, for error messages.
        id: of the query; empty where the source has none, and queries are told apart by type and text.
        query: its text.
        task_type: its type; empty where the source has none.
        score: in [0, 1].
        cost_usd: in US dollars.
        latency_s: in seconds.
        tokens: that were generated.
        reply: what the worker wrote.
        card: what the worker is, in words.
        unread: by measure what the source has in place of a number.
        outside: by measure a number that it cannot be; a score near 0 or 1 counts as that, any other is missing.
    """

    where: str
    query: str
    worker: str
    score: float | None
    id: str = ""
    task_type: str = ""
    cost_usd: float | None = None
    latency_s: float | None = None
    tokens: float | None = None
    reply: str | None = None
    card: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)


def usable(outcome: TableOutcome) -> TableOutcome:
    """The outcome in texts and numbers: a NaN is missing, names have no space around them, and half of a surrogate pair
    in what is not asked is a replacement character.

    Raises:
        UnusableOutcomeError: it has no query, or no worker.
    """
    if isinstance(outcome.worker, Mapping | list | tuple):
        raise UnusableOutcomeError("a worker that is no name")
    query, worker = text(outcome.query), _whole(outcome.worker).strip()
    if not query.strip():
        raise UnusableOutcomeError("a query without words")
    if _HALF.search(query):
        raise UnusableOutcomeError("a query with half of a surrogate pair, which is no character")
    if not worker:
        raise UnusableOutcomeError("no worker")
    numbers: dict[str, Any] = {name: _measured(outcome, name) for name in MEASURES}
    outside = {name: f"{x:g}" for name, x in numbers.items() if x is not None and not 0 <= x <= _MOST[name]}
    for name in outside:
        score = numbers[name]
        near = name == "score" and -_NEAR <= score <= 1 + _NEAR
        numbers[name] = min(max(score, 0.0), 1.0) if near else None
    return replace(
        outcome,
        query=query,
        worker=worker,
        id=_whole(outcome.id).strip(),
        task_type=_whole(outcome.task_type).strip(),
        reply=None if absent(outcome.reply) else _whole(outcome.reply),
        card=_whole(outcome.card),
        outside={name: f"{wrong} of {worker!r}" for name, wrong in outside.items()},
        **numbers,
    )


def _whole(value: Any) -> str:
    return _HALF.sub("\ufffd", text(value))


def _measured(outcome: TableOutcome, name: str) -> float | None:
    value = getattr(outcome, name)
    if absent(value):
        return None
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError):
        raise UserError(
            f"{outcome.where}: {name} of {outcome.worker!r} is {shown(value)}, no number; the reader has to give a "
            "number, or None where nobody measured"
        ) from None
    if name == "score" and -_ROUNDING < min(found, 1 - found) < 0:
        return min(max(found, 0.0), 1.0)
    return None if math.isnan(found) else found


_MOST_UNREAD = 0.1
"""Of a measure's cells may be no numbers; where more are, those that are numbers tell too little of all."""
_MOST_OUTSIDE = 0.01
"""Of a measure's cells may be numbers that it cannot be; where more are, it is measured by another scale."""
_OUTSIDE = {
    "score": "score out of 0..1 (one that misses it by at most 0.1 counts as 0 or 1, any other as missing)",
    **{
        name: f"{name} below 0 or above {most:g}, so that it is missing"
        for name, most in _MOST.items()
        if name != "score"
    },
}


class LeftOut:
    """Counts what cannot be used: records, and cells of measures that are no numbers or out of range."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._filled: Counter[str] = Counter()
        self._scored: set[str] = set()
        self._without_score: dict[str, list[str]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """By reason, the most frequent first."""
        return dict(self._counts.most_common())

    @property
    def lines(self) -> tuple[str, ...]:
        """The counts in words, with the first case of each reason that has a known place."""
        firsts = {reason: f" (the first: {case})" for reason, case in self._first.items()}
        return tuple(f"{count} x {reason}{firsts.get(reason, '')}" for reason, count in self.counts.items())

    def add(self, reason: str, case: str) -> None:
        """Count a case, which is named by its place; empty where nobody knows it."""
        self._counts[reason] += 1
        if case:
            self._first.setdefault(reason, case)

    def add_cells(self, outcome: TableOutcome) -> None:
        """Count the outcome's cells that are no numbers or out of range, beside those that can be used."""
        for name in MEASURES:
            self._filled[name] += (
                bool({name} & {*outcome.unread, *outcome.outside}) or getattr(outcome, name) is not None
            )
        if "score" in outcome.unread:
            self._without_score.setdefault(outcome.worker, []).append(f"{outcome.unread['score']}, {outcome.where}")
        elif outcome.score is not None:
            self._scored.add(outcome.worker)
        for name, cell in outcome.unread.items():
            if name != "score":
                self.add(_no_number(name), f"{cell}, {outcome.where}")
        for name, wrong in outcome.outside.items():
            self.add(_OUTSIDE[name], f"{wrong}, {outcome.where}")

    def check_cells(self, source: str, *, by_columns: bool) -> None:
        """Leave out workers that never have a score, and refuse a table whose numbers are written otherwise.

        Args:
            by_columns: whether `--columns` says what is read.
        """
        for worker, cells in self._without_score.items():
            if self._scored and worker not in self._scored:
                self._filled["score"] -= len(cells)
                self.add(f"no worker, though it looks like one: {worker!r} has no number as a score", cells[0])
            else:
                for cell in cells:
                    self.add(_no_number("score"), cell)
        for name, reason in _OUTSIDE.items():
            if self._counts[reason] > _MOST_OUTSIDE * self._filled[name]:
                scale = "scores go from 0 to 1: divide them by the highest possible one, or " if name == "score" else ""
                raise UserError(
                    f"{source}: {self._counts[reason]} of {self._filled[name]} cells of {name} are out of range (the "
                    f"first: {self._first[reason]}); {scale}correct it, or leave it out"
                )
        for name in MEASURES:
            reason = _no_number(name)
            if self._counts[reason] > _MOST_UNREAD * self._filled[name]:
                remedy = "scores from 0 to 1 or as true and false" if name == "score" else "without units"
                if by_columns and name != "score":
                    remedy += f", or leave the column out: --columns {name}="
                raise UserError(
                    f"{source}: {self._counts[reason]} of {self._filled[name]} cells of {name} are no numbers (the "
                    f"first: {self._first[reason]}); write numbers with a decimal point, {remedy}"
                )


def _no_number(name: str) -> str:
    return "score is no number" if name == "score" else f"{name} is no number, so that it is missing"


Values: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
"""Indices of queries."""

_TWICE = "a second outcome of the same worker on the same query"


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """Queries by workers. A cell that nobody measured is NaN, never 0.

    Attributes:
        source: the table's name.
        ids: (queries,) each once.
        texts: (queries,) what is asked.
        task_types: (queries,) or empty texts.
        workers: (workers,) names.
        score: (queries, workers) in [0, 1].
        cost_usd: (queries, workers) US dollars.
        latency_s: (queries, workers) seconds.
        tokens: (queries, workers) generated.
        replies: (queries, workers) what was answered, or None where the source has no replies.
        cards: worker -> what it is, in words; of those that the source describes.
        unusable: reason -> number of records that were left out.
        left_out: the same in words, each with the place of the first.
    """

    source: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    task_types: tuple[str, ...]
    workers: tuple[str, ...]
    score: Values
    cost_usd: Values
    latency_s: Values
    tokens: Values
    replies: tuple[tuple[str | None, ...], ...] | None = None
    cards: Mapping[str, str] = field(default_factory=dict)
    unusable: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.workers))
        for name in MEASURES:
            if (found := getattr(self, name).shape) != shape:
                raise ValueError(f"{name} has shape {found}, but there are {shape[0]} queries and {shape[1]} workers")
        if not len(self.texts) == len(self.task_types) == len(self.ids) == len(set(self.ids)):
            raise ValueError("a table needs a text, a task type and an id of its own for each query")
        if self.replies is not None and len(self.replies) != len(self.ids):
            raise ValueError(f"replies to {len(self.replies)} queries, but there are {len(self.ids)}")

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.ids)

    @cached_property
    def digest(self) -> str:
        """sha256 of all that the table says, as 16 hexadecimal digits; its name and what was left out do not count."""
        texts = [self.ids, self.texts, self.task_types, self.workers, self.replies, *sorted(self.cards.items())]
        digest = hashlib.sha256(repr(texts).encode())
        for values in (getattr(self, name) for name in MEASURES):
            digest.update(np.where(np.isnan(values), -1.0, values).tobytes())
        return digest.hexdigest()[:16]

    @property
    def priced(self) -> bool:
        """Whether any cell says what it cost."""
        return bool(np.isfinite(self.cost_usd).any())

    def take(self, rows: Sequence[int] | Rows) -> OutcomeTable:
        """The table of some queries, in the order of `rows`."""
        rows = [int(row) for row in rows]
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows),
            texts=tuple(self.texts[row] for row in rows),
            task_types=tuple(self.task_types[row] for row in rows),
            **{name: getattr(self, name)[rows] for name in MEASURES},
            replies=None if self.replies is None else tuple(self.replies[row] for row in rows),
        )

    def worded(self, texts: Sequence[str]) -> OutcomeTable:
        """The table of the same queries in other words, (queries,)."""
        return replace(self, texts=tuple(texts))

    def only(self, workers: Sequence[str]) -> OutcomeTable:
        """The table of some workers, in the order of `workers`.

        Raises:
            ValueError: there is no such worker.
        """
        if unknown := set(workers) - set(self.workers):
            raise ValueError(f"no worker {min(unknown)!r} in this table; there are {', '.join(self.workers)}")
        columns = [self.workers.index(worker) for worker in workers]
        replies = self.replies
        return replace(
            self,
            workers=tuple(workers),
            cards={worker: self.cards[worker] for worker in workers if worker in self.cards},
            **{name: getattr(self, name)[:, columns] for name in MEASURES},
            replies=None if replies is None else tuple(tuple(row[column] for column in columns) for row in replies),
        )


def table_of(
    source: str, records: Iterable[TableOutcome | UnusableOutcomeError], *, by_columns: bool = False
) -> OutcomeTable:
    """The table of outcomes in any order; queries and workers stand in the order in which they first occur.

    Of several outcomes of one worker on one query the first that has a score counts.

    Args:
        by_columns: whether `--columns` says what is read, for error messages.
    """
    left_out = LeftOut()
    rows: dict[str, int] = {}
    columns: dict[str, int] = {}
    first: list[TableOutcome] = []
    cells: dict[tuple[int, int], TableOutcome] = {}
    cards: dict[str, str] = {}
    for given in records:
        if isinstance(given, UnusableOutcomeError):
            left_out.add(str(given), "")
            continue
        try:
            record = usable(given)
        except UnusableOutcomeError as reason:
            left_out.add(str(reason), given.where)
            continue
        left_out.add_cells(record)
        if "score" in record.unread:
            continue
        key = record.id or hashlib.sha256(repr(_asked(record)).encode()).hexdigest()[:16]
        row = rows.setdefault(key, len(rows))
        if row == len(first):
            first.append(record)
        elif _asked(first[row]) != _asked(record):
            raise UserError(
                f"{record.where}: the query {key!r} has another text or type at {first[row].where}; give each query an "
                "id of its own"
            )
        cell = row, columns.setdefault(record.worker, len(columns))
        if record.card:
            cards.setdefault(record.worker, record.card)
        if cell in cells:
            left_out.add(_TWICE, record.where)
        if cell not in cells or (cells[cell].score is None and record.score is not None):
            cells[cell] = record
    left_out.check_cells(source, by_columns=by_columns)
    _refuse_row_numbers(source, first, columns, cells, by_columns=by_columns)
    if all(record.score is None for record in cells.values()):
        reasons = "; ".join(left_out.lines)
        raise UserError(f"{source}: no outcome with a score{f' ({reasons})' if reasons else ''}")
    shape = len(rows), len(columns)
    values = {name: np.full(shape, np.nan) for name in MEASURES}
    for place, record in cells.items():
        for name in MEASURES:
            if (value := getattr(record, name)) is not None:
                values[name][place] = value
    replies = None
    if any(record.reply is not None for record in cells.values()):
        known = {place: record.reply for place, record in cells.items()}
        replies = tuple(tuple(known.get((row, column)) for column in range(shape[1])) for row in range(shape[0]))
    return OutcomeTable(
        source=source,
        ids=tuple(rows),
        texts=tuple(record.query for record in first),
        task_types=tuple(record.task_type for record in first),
        workers=tuple(columns),
        **values,
        replies=replies,
        cards=cards,
        unusable=left_out.counts,
        left_out=left_out.lines,
    )


def _asked(record: TableOutcome) -> tuple[str, str]:
    """What makes two queries one: type and text, however lines end and whatever space is around it."""
    return record.task_type, record.query.replace("\r\n", "\n").strip()


def _refuse_row_numbers(
    source: str, first: Sequence[TableOutcome], workers: Collection[str], cells: Collection[object], *, by_columns: bool
) -> None:
    """Refuse ids of which each has one worker's outcome alone, though the same is asked under several."""
    known: dict[tuple[str, str], str] = {}
    twins = ((known.setdefault(_asked(one), one.id), one.id) for one in first if one.id)
    if len(workers) > 1 and len(cells) == len(first) and (twin := next((t for t in twins if t[0] != t[1]), None)):
        remedy = "--columns id= tells queries apart by their text" if by_columns else "give each query one id, or none"
        raise UserError(
            f"{source}: each id has the outcome of one worker alone, though {twin[0]!r} and {twin[1]!r} ask the same, "
            f"so that no workers can be compared; if the ids number the rows, {remedy}"
        )


def nan_mean(values: Values) -> Values:
    """Means over the first axis without NaN; NaN where there is nothing else."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
