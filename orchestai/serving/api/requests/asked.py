"""What a client asks for, whichever of OpenAI's formats it came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestai.config import Contract
from orchestai.orchestrator import new_run_id
from orchestai.serving.api.errors import ApiError, invalid
from orchestai.tasks.asked_task import AnswerKind
from orchestai.tasks.dialogue import Dialogue

HEADER = "x-orchestai-"
_LIMITS = ("max_cost_usd", "deadline_s", "max_calls", "min_success")
"""Limits that a request may tighten, and not loosen; `min_success` is tighter where it is higher."""


class ContractTerms(BaseModel):
    """The part of a contract that a request sets; see `Contract`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_cost_usd: float | None = None
    deadline_s: float | None = None
    max_calls: int | None = None
    allow: tuple[str, ...] = ()
    min_success: float | None = None
    prefer: float | None = None
    hour_usd: float = 0.0
    on_deadline: str = "partial"


class Extension(BaseModel):
    """The field `orchestai` of a request; each key may come as a header instead, such as `x-orchestai-max-cost-usd`.

    Attributes:
        contract: of this answer.
        answer: whether a program or a text is wanted; None is what is configured (`tasks.answer`).
        events: whether a stream tells of the plan and its steps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    contract: ContractTerms = ContractTerms()
    answer: AnswerKind | None = None
    events: bool = False


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        model: the name under which a planner, a profile or a worker is served.
        instruction: the last message, which is planned.
        dialogue: what was said before, and how the answer may be.
        stream: whether the reply comes piece by piece.
        include_usage: whether a stream ends with what it took.
        metadata, user: what the client wants to find again with the run.
        results: what the client's tools gave, by the id of the call, where a run is resumed.
        conversation: the parameter that has the messages, to blame it.
        trace: headers that say of what trace of OpenTelemetry's the request is a part.
        run_id: of the run that answers it.
    """

    model: str
    instruction: str
    dialogue: Dialogue
    extension: Extension
    stream: bool = False
    include_usage: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    results: Mapping[str, str] = field(default_factory=dict)
    conversation: str = "messages"
    trace: Mapping[str, str] = field(default_factory=dict)
    run_id: str = field(default_factory=new_run_id)

    @property
    def labels(self) -> dict[str, str]:
        """What is kept with the run."""
        return {**self.metadata, **({"user": self.user} if self.user else {})}


def with_headers(extension: Extension, headers: Mapping[str, str]) -> Extension:
    """The extension, filled up from headers; what the body says counts.

    Raises:
        ApiError: there is no such header, or its value is wrong.
    """
    given: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    for header, value in headers.items():
        if not header.startswith(HEADER):
            continue
        name = header.removeprefix(HEADER).replace("-", "_")
        if name in ContractTerms.model_fields:
            terms[name] = [word.strip() for word in value.split(",")] if name == "allow" else value
        elif name in Extension.model_fields and name != "contract":
            given[name] = value
        else:
            known = ", ".join(
                HEADER + key.replace("_", "-") for key in (*ContractTerms.model_fields, "answer", "events")
            )
            raise invalid(header, f"no such header; there are {known}", "unknown_parameter")
    if not given and not terms:
        return extension
    try:
        read = Extension.model_validate({"contract": terms, **given})
    except ValidationError as error:
        fault = error.errors()[0]
        where = HEADER + str(fault["loc"][-1]).replace("_", "-")
        raise invalid(where, f"{fault['msg']}") from None
    contract = read.contract.model_copy(update=extension.contract.model_dump(exclude_unset=True))
    own = {name: getattr(extension, name) for name in extension.model_fields_set if name != "contract"}
    return read.model_copy(update={**own, "contract": contract})


def contract_of(terms: ContractTerms, offered: Contract, deadline_s: float) -> Contract:
    """The contract of one request: what it sets, within what is offered.

    Args:
        offered: the server's, with the profile's preferences.
        deadline_s: where neither says when.

    Raises:
        ApiError: the request asks for more than is offered, or a value is wrong.
    """
    given = terms.model_dump(exclude_unset=True)
    for name in _LIMITS:
        limit, asked = getattr(offered, name), given.get(name)
        if limit is None or name not in given:
            continue
        if asked is None or (asked < limit if name == "min_success" else asked > limit):
            wanted = "no limit" if asked is None else f"{asked:g}"
            raise invalid(f"orchestai.contract.{name}", f"{wanted} goes beyond this server's own limit of {limit:g}")
    if offered.allow and (others := set(given.get("allow") or ()) - set(offered.allow)):
        raise invalid("orchestai.contract.allow", f"this server does not allow {', '.join(sorted(others))}")
    if offered.allow and not given.get("allow"):
        given.pop("allow", None)
    try:
        contract = Contract.model_validate({**offered.model_dump(), **given})
    except ValidationError as error:
        raise first_fault(error, "orchestai.contract.") from None
    return contract if contract.deadline_s is not None else contract.model_copy(update={"deadline_s": deadline_s})


def first_fault(error: ValidationError, before: str = "", known: Sequence[str] = ()) -> ApiError:
    """The first thing that is wrong with a request, at its place.

    Args:
        before: in front of the place.
        known: parameters of OpenAI's that are not supported, beside those that do not exist.
    """
    fault = error.errors(include_url=False)[0]
    # Where a fault is; where several types are possible, pydantic also names the type, such as `str`
    loc = fault["loc"]
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part.isidentifier() and part != "str":
            place += f".{part}" if place else part
    where = before + place
    said = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        if where in known:
            return invalid(where, "this parameter is not supported here; leave it out", "unsupported_parameter")
        return invalid(where, "there is no such parameter; leave it out", "unknown_parameter")
    if fault["type"] == "missing":
        return invalid(where, "this parameter is required", "missing_required_parameter")
    if fault["type"] in ("literal_error", "unsupported_value"):
        return invalid(where, said, "unsupported_value")
    if fault["type"] == "json_invalid":
        return invalid(None, f"the body is not valid JSON: {said.removeprefix('Invalid JSON: ')}", "invalid_json")
    return invalid(where or None, said, "invalid_type" if fault["type"].endswith("_type") else "invalid_value")
