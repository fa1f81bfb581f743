"""Names that the reports of tables use themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from orchestai.data.tables.outcome_table import OutcomeTable
from orchestai.errors import UserError

FACTS: Final = ("new_worker", "paths", "reader", "replies", "table", "versions")
"""Keys of a report that stand beside the figures, which are under the table's name."""


def refuse_taken_names(table: OutcomeTable, rows: Iterable[str]) -> None:
    """Refuse a table, or a worker, whose figures would take the place of others in a report.

    Args:
        rows: what the report has beside the workers.

    Raises:
        UserError: it is named like a fact about the report, or a worker like one of the rows.
    """
    if table.source in FACTS:
        raise UserError(
            f"{table.source}: a report has facts of its own under this name; rename the file, whose name is the table's"
        )
    if taken := set(table.workers) & set(rows):
        raise UserError(
            f"{table.source}: the worker {min(taken)!r} is called like another row of the report; rename it in the file"
        )
