"""What people say of answers that they were served: a score, the right answer, tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from orchestai.errors import UserError
from orchestai.serving.store.database import Database
from orchestai.serving.store.statements import insert_or_change
from orchestai.serving.store.tables import feedback, now, served


@dataclass(frozen=True)
class Feedback:
    """Of one run; what was not said is None.

    Attributes:
        score: from 0, wrong, to 1, right.
        answer: the right one.
        tests: Python code that passes if a program is right.
    """

    score: float | None = None
    answer: str | None = None
    tests: str | None = None

    def __post_init__(self) -> None:
        if self.score is None and self.answer is None and self.tests is None:
            raise UserError("feedback says nothing: give a score, the right answer, or tests")
        if self.score is not None and not 0 <= self.score <= 1:
            raise UserError(f"score={self.score}: a score lies between 0, wrong, and 1, right")


class FeedbackStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, run_id: str, key: str, given: Feedback) -> None:
        """Keep feedback, in place of what was said of this run before.

        Raises:
            UserError: this key has no such run.
        """
        said = {"score": given.score, "answer": given.answer, "tests": given.tests, "given_at": now()}

        def write(connection: Connection) -> None:
            runs = select(served.c.run_id).where(served.c.run_id == run_id, served.c.key == key)
            if connection.scalar(runs) is None:
                raise UserError(f"{run_id}: no such run of this key")
            insert_or_change(connection, feedback, {"run_id": run_id, "key": key, **said}, said)

        self._database.write(key, write)

    def all(self) -> Iterator[tuple[str, Feedback]]:
        """Run ids with what was said of them, in the order in which it was said."""
        with self._database.reading() as connection:
            for row in connection.execute(select(feedback).order_by(feedback.c.given_at, feedback.c.run_id)):
                yield row.run_id, Feedback(row.score, row.answer, row.tests)


def all_feedback(url: str) -> dict[str, Feedback]:
    """What was said, by run id; nothing where no server has made the database.

    Raises:
        UserError: the database cannot be opened.
    """
    if not Database.is_made(url):
        return {}
    with Database.open(url) as database:
        return dict(FeedbackStore(database).all())
