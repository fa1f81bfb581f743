"""`/v1/runs/{id}` and `/v1/feedback`: what a run took, and what its answer was worth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestai.errors import UserError
from orchestai.serving.api.caller import Caller
from orchestai.serving.api.errors import ApiError, invalid
from orchestai.serving.api.requests.asked import first_fault
from orchestai.serving.store import Database, Feedback, FeedbackStore, ServedRuns

_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
"""What says something, and PostgreSQL can keep."""


class _FeedbackRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run_id: str
    score: float | None = Field(None, ge=0, le=1)
    answer: _Text | None = None
    tests: _Text | None = None


async def find_run(database: Database, caller: Caller, name: str) -> dict[str, Any]:
    """A run of the caller's, by its id or by that of the response that it gave.

    Raises:
        ApiError: there is none.
    """
    run_id = run_of(name)
    run = await asyncio.to_thread(ServedRuns(database).get, run_id, caller.key)
    if run is None:
        raise _unknown(name)
    return {
        "id": run.run_id,
        "object": "orchestai.run",
        "status": run.status,
        "plan": run.plan,
        "receipt": run.receipt,
    }


async def keep_feedback(
    database: Database, caller: Caller, body: bytes, change: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """Keep what a caller says of a run.

    Args:
        change: of each text before it is kept; None keeps it as it is.

    Raises:
        ApiError: it says nothing, or there is no such run of the caller's.
    """
    try:
        said = _FeedbackRequest.model_validate_json(body)
    except ValidationError as error:
        raise first_fault(error) from None
    run_id = run_of(said.run_id)
    try:
        feedback = Feedback(said.score, _kept(said.answer, change), _kept(said.tests, change))
    except UserError as error:
        raise invalid(None, str(error), "missing_required_parameter") from None
    try:
        await asyncio.to_thread(FeedbackStore(database).put, run_id, caller.key, feedback)
    except UserError:
        raise _unknown(said.run_id) from None
    return {"object": "orchestai.feedback", "run_id": run_id}


def _kept(text: str | None, change: Callable[[str], str] | None) -> str | None:
    return text if text is None or change is None else change(text)


def run_of(name: str) -> str:
    """The run's id, of the id of its reply.

    Raises:
        ApiError: no run can have this one, and PostgreSQL could not even look for it.
    """
    if "\0" in name:
        raise _unknown(name)
    return f"run-{name.removeprefix('resp_')}" if name.startswith("resp_") else name


def _unknown(name: str) -> ApiError:
    return ApiError(404, "run_not_found", f"there is no run {name!r} of this key", param="run_id")
