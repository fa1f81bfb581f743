"""What a client asks for, whichever of OpenAI's formats it came in, and what requests of both share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from orchestai.config import Contract
from orchestai.orchestrator import new_run_id
from orchestai.serving.api.errors import ApiError, invalid
from orchestai.tasks.asked_task import AnswerKind
from orchestai.tasks.dialogue import Dialogue, Message, ToolCall, ToolUse

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


_TRACE = ("traceparent", "tracestate")
_PART = ("type", "text", "refusal", "annotations", "logprobs")
"""Keys of a part of a message; the last two are said of texts that a model wrote."""
R = TypeVar("R", bound="CommonRequest")


def _only(said: str, fits: Callable[[Any], bool]) -> AfterValidator:
    def check(value: Any) -> Any:
        if not fits(value):
            raise PydanticCustomError("unsupported_value", f"only {said} is supported")
        return value

    return AfterValidator(check)


Zero = Annotated[float | None, _only("0", lambda value: not value)]
One = Annotated[float | None, _only("1", lambda value: value in (None, 1))]
Empty = Annotated[Any, _only("null", lambda value: not value)]


class Part(BaseModel):
    """A part of a request; unknown keys are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CommonRequest(Part):
    """The parameters that both formats know by the same name."""

    model: str
    orchestai: Extension = Extension()
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    metadata: dict[str, str] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=512)
    safety_identifier: str | None = Field(None, max_length=512)
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Literal[True] | None = None
    top_p: One = None
    top_logprobs: Zero = None
    service_tier: Literal["auto", "default"] | None = None

    @classmethod
    def read(cls: type[R], body: bytes, unsupported: Sequence[str]) -> R:
        """The request in a body.

        Args:
            unsupported: parameters of OpenAI's that clients may know of.

        Raises:
            ApiError: it is no such request.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise first_fault(error, known=unsupported) from None

    def asked(
        self,
        messages: Sequence[Message],
        field: str,
        headers: Mapping[str, str],
        dialogue: Dialogue,
        *,
        results: Mapping[str, str],
        include_usage: bool,
    ) -> Asked:
        """What is asked for: the last message, in the conversation that the others are.

        Args:
            field: where the messages are in the request.
            dialogue: how the answer may be.

        Raises:
            ApiError: the last message is none that can be answered, or a header is wrong.
        """
        *earlier, last = messages
        if last.role == "assistant":
            raise invalid(f"{field}[{len(earlier)}].role", "the last message is to be answered; it is the user's")
        return Asked(
            model=self.model,
            instruction=last.content,
            dialogue=dialogue.model_copy(update={"earlier": (*dialogue.earlier, *earlier)}),
            results=results,
            conversation=field,
            extension=with_headers(self.orchestai, headers),
            stream=bool(self.stream),
            include_usage=include_usage,
            trace={name: headers[name] for name in _TRACE if name in headers},
            metadata=self.metadata or {},
            user=self.safety_identifier or self.user,
        )


def refuse_others(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse what would be ignored; null asks for nothing.

    Raises:
        ApiError: there is another key.
    """
    for name, value in given.items():
        if name not in known and value is not None:
            raise invalid(f"{where}.{name}", "this is not supported here; leave it out", "unsupported_parameter")


def told_call(name: str, arguments: str) -> Message:
    """A call of a tool that is long past, in words."""
    return Message(role="assistant", content=f"(I called {name} with {arguments or '{}'}.)")


def told_result(text: str) -> Message:
    """What it gave, in words."""
    return Message(role="user", content=f"(The tool gave: {text})")


def said(role: str, text: str, where: str) -> Message:
    """A message; a developer's is the system's.

    Raises:
        ApiError: it is empty, which only an assistant's may be.
    """
    if role != "assistant" and not text:
        raise invalid(f"{where}.content", "it is empty", "missing_required_parameter")
    return Message.model_validate({"role": "system" if role == "developer" else role, "content": text})


def text_of(content: Any, where: str, kinds: Sequence[str]) -> str:
    """The text of a message's content: a text, or a list of parts of these kinds.

    Raises:
        ApiError: there are others, or one has a key that is not known.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid(where, "a text, or a list of parts, is expected", "invalid_type")
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in kinds:
            raise invalid(f"{where}[{place}].type", f"{kind!r}: only text is supported", "unsupported_value")
        refuse_others(part, _PART, f"{where}[{place}]")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid(f"{where}[{place}].text", "a text is expected", "invalid_type")
        texts.append(text)
    return "\n".join(texts)


_CHOICES = ("auto", "none", "required")
_MOST_TOOLS = 128


def read_tools(tools: Sequence[Any] | None, choice: Any, *, nested: bool) -> ToolUse | None:
    """The tools of a request; None without any.

    Args:
        nested: whether a function's fields are under `function`, as in chat completions, or beside `type`.

    Raises:
        ApiError: one is no function, or the choice is none of them.
    """
    if not tools:
        if choice not in (None, "auto", "none"):
            raise invalid("tool_choice", "there are no tools to choose from")
        return None
    if len(tools) > _MOST_TOOLS:
        raise invalid("tools", f"at most {_MOST_TOOLS} tools")
    functions = [_function(tool, f"tools[{place}]", nested) for place, tool in enumerate(tools)]
    names = [function["function"]["name"] for function in functions]
    if isinstance(choice, dict):
        named = choice.get("function") if nested else choice
        if choice.get("type") != "function" or not isinstance(named, dict) or named.get("name") not in names:
            raise invalid("tool_choice", f"it names no function of tools: {', '.join(names)}")
        refuse_others(choice, ("type", "function" if nested else "name"), "tool_choice")
        if nested:
            refuse_others(named, ("name",), "tool_choice.function")
        choice = {"type": "function", "function": {"name": named["name"]}}
    elif choice not in (None, *_CHOICES):
        raise invalid("tool_choice", f"one of {', '.join(_CHOICES)}, or a function by name", "unsupported_value")
    return ToolUse(tools=json.dumps(functions), choice=json.dumps(choice or "auto"))


def _function(tool: Any, where: str, nested: bool) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function":
        raise invalid(f"{where}.type", f"{kind!r}: only functions are supported", "unsupported_value")
    if nested:
        refuse_others(tool, ("type", "function"), where)
    given = tool.get("function") if nested else {name: value for name, value in tool.items() if name != "type"}
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        raise invalid(f"{where}.name", "a function needs a name", "missing_required_parameter")
    refuse_others(given, ("name", "description", "parameters", "strict"), where)
    if not isinstance(given.get("parameters") or {}, dict):
        raise invalid(f"{where}.parameters", "a JSON schema is expected", "invalid_type")
    return {"type": "function", "function": {name: value for name, value in given.items() if value is not None}}


def call_name(run_id: str, place: int) -> str:
    """What the client calls the call by; the run is found again by it."""
    return f"call_{run_id.removeprefix('run-')}_{place}"


def run_of_call(name: str) -> str | None:
    """The run that waits for a call; None where no run of ours can."""
    kind, _, rest = name.partition("_")
    run, _, place = rest.rpartition("_")
    return f"run-{run}" if kind == "call" and run and "\0" not in run and place.isdecimal() else None


def chat_calls(calls: Iterable[ToolCall], run_id: str, *, indexed: bool = False) -> list[dict[str, Any]]:
    """Calls in the format of chat completions, `indexed` as in a stream."""
    return [
        {
            **({"index": place} if indexed else {}),
            "id": call_name(run_id, place),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for place, call in enumerate(calls)
    ]


def response_calls(calls: Iterable[ToolCall], run_id: str) -> list[dict[str, Any]]:
    """Calls as output items of a response."""
    return [
        {
            "id": f"fc_{call_name(run_id, place).removeprefix('call_')}",
            "type": "function_call",
            "status": "completed",
            "call_id": call_name(run_id, place),
            "name": call.name,
            "arguments": call.arguments,
        }
        for place, call in enumerate(calls)
    ]


def exchanged(
    calls: Sequence[ToolCall], text: str, run_id: str, results: Mapping[str, str], where: str
) -> list[dict[str, Any]]:
    """The messages that a worker reads which called tools, with its own ids of the calls.

    Args:
        where: the results are in the request.

    Raises:
        ApiError: a result is missing.
    """
    own = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": text or None, "tool_calls": own}]
    for place, call in enumerate(calls):
        name = call_name(run_id, place)
        if name not in results:
            raise invalid(where, f"the result of {name} ({call.name}) is missing; send all together")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": results[name]})
    return messages
