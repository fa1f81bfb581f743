"""Reads replies of OpenAI-compatible servers, plain and streamed, field by field: what is not needed costs nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestai.tasks.dialogue import ToolCall
from orchestai.workers.api_faults import CutOffError, PassingError, RefusedRequestError, fault_of_status
from orchestai.workers.generation import Hear

_SHOWN = 80
_MOST_TOKENS = 10**9
"""No reply takes more; a larger figure is none."""
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cached_prompt_text_tokens")
_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of events begins."""
_MARK_OF_UTF8 = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
_ENDS = {
    "length": re.compile(r"length|max\w*tokens|token_?limit|context|truncat|error_limit", re.I),
    "content_filter": re.compile(r"filter|safe|prohibit|block|recitation|sensitive|guard|spii|toxic|refusal", re.I),
    "error": re.compile(r"error|abort|insufficient_system_resource", re.I),
}
"""What servers call these ends, `stop` and its kin aside: `FinishReason.MAX_TOKENS`, for one."""


@dataclass(frozen=True)
class ServerReply:
    """What is read of a reply.

    Attributes:
        finish_reason: `length`, `content_filter`, another word of the server's, or None.
        prompt_tokens, completion_tokens: None where the server does not say.
        cached_tokens: of the prompt's, those that it had read before.
        corrected: whether these are not the server's own figures, since its sums did not add up.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int
    corrected: bool
    model: str | None


@dataclass
class _Call:
    """A call of a tool as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class ReplyReader:
    """Takes the bytes of a reply as they come, tells `hear` its text, and gives the whole at the end.

    A plain reply is read as a stream of one event, whatever was asked for and whatever its type is said to be.
    """

    hear: Hear | None = None
    asked: str = ""
    """The request, in lower case."""
    _data: bytearray = field(default_factory=bytearray)
    _streams: bool | None = None
    _event_name: str = ""
    _event: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _held: str = ""
    _calls: list[tuple[Any, _Call]] = field(default_factory=list)
    _usage: dict[str, Any] = field(default_factory=dict)
    _model: str | None = None
    _finish: str | None = None
    _chosen: bool = False
    _ended: bool = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            PassingError: they are no reply, or tell of a fault that may pass.
            InfrastructureError, WorkerError: a fault of another kind, or after a part of the text was told.
        """
        self._data += data
        if self._streams is None:
            begun = bytes(self._data.removeprefix(_MARK_OF_UTF8).strip())
            if not any(start.startswith(begun) for start in (_MARK_OF_UTF8, *_STARTS)):  # else there is more to come
                self._streams = begun.startswith(_STARTS)
        if self._streams:
            *lines, self._data = map(bytearray, _LINE_END.split(self._data))
            for line in lines:
                self._line(bytes(line))

    def finish(self) -> ServerReply:
        """The reply; raises as `feed` does, and where it is empty or broke off."""
        if self._streams:
            self._line(bytes(self._data))
            self._line(b"")
        elif self._data.strip():
            self._ended = True
            self._take(self._json(bytes(self._data)), bytes(self._data))
        else:
            raise PassingError("bad_response", "not an answer: the answer is empty")
        self._tell(self._held, last=True)
        text = "".join(self._texts)
        if self._finish == "error" or ((text or self._calls) and not (self._ended or self._finish)):
            raise self._fault("the generation broke off: the reply ended before it was whole")
        if not self._chosen:
            raise PassingError("bad_response", "the answer holds no choice")
        prompt, completion, cached, corrected = read_usage(self._usage)
        if not (text or completion or self._calls or self._finish == "content_filter"):
            raise PassingError("bad_response", "the answer is empty, and no token was written for it")
        calls = tuple(
            ToolCall(id=call.id or f"call_{place}", name=call.name, arguments=call.arguments or "{}")
            for place, (_, call) in enumerate(self._calls)
        )
        if not all(call.name for call in calls):
            raise PassingError("bad_response", "a call of a tool does not say which")
        return ServerReply(text, calls, self._finish, prompt, completion, cached, corrected, self._model)

    def _line(self, line: bytes) -> None:
        """One line of a stream; an empty one ends an event."""
        text = line.decode(errors="replace").removeprefix("\ufeff")
        if text:
            name, _, value = text.partition(":")
            if name == "data":
                self._event.append(value.removeprefix(" "))
            elif name == "event":
                self._event_name = value.strip()
            return
        said, name = "\n".join(self._event).strip(), self._event_name
        self._event, self._event_name = [], ""
        if said in ("", "null") or said.startswith(":") or self._ended:  # gateways send comments as data
            return
        if said.strip('"').upper().startswith("[DONE]"):
            self._ended = True
            return
        value = self._json(said)
        self._take({"error": value} if name == "error" and not _has_error(value) else value, said)

    def _json(self, said: str | bytes) -> Any:
        try:
            return json.loads(said)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"{self._not_an_answer}: {_shown(said)} ({error})") from None

    def _take(self, value: Any, said: str | bytes) -> None:
        """What one object of JSON adds to the reply."""
        if not isinstance(value, Mapping):
            raise self._fault(f"{self._not_an_answer}: {_shown(said)}")
        choices = value.get("choices")
        if _has_error(value) or (not choices and _tells_fault(value)):
            raise self.told(fault_of_status(200, value, asked=self.asked))
        if choices is not None and not isinstance(choices, list):
            raise self._fault(f"{self._not_an_answer}: its choices are no list")
        choice = choices[0] if choices else {}
        if not isinstance(choice, Mapping):
            raise self._fault(f"{self._not_an_answer}: a choice is no object")
        if _has_error(choice):
            raise self.told(fault_of_status(200, choice["error"], asked=self.asked))
        for usage in (value.get("usage"), choice.get("usage"), _inside(value, "x_groq", "usage")):
            if isinstance(usage, Mapping):
                self._usage |= {name: figure for name, figure in usage.items() if figure or name not in self._usage}
        if isinstance(value.get("model"), str):
            self._model = _whole(value["model"]) or self._model
        if not choices:
            return
        self._chosen = True
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = next((end for end, words in _ENDS.items() if words.search(finish)), finish)
        delta, message = choice.get("delta"), choice.get("message")
        for part in (delta, message, choice):
            if isinstance(part, Mapping) and (text := _text(part)):
                self._tell(self._beyond(text) if part is message else text)
                break
        for part in (delta, message):
            if isinstance(part, Mapping) and self._add_calls(part):
                break

    def _beyond(self, text: str) -> str:
        """Of a message that repeats what came in pieces, the rest."""
        told = "".join(self._texts) + self._held
        return text[len(told) :] if told and text.startswith(told) else text

    def _tell(self, text: str, last: bool = False) -> None:
        text = text if last else self._held + text
        self._held = "" if last or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
        text = _whole(text.removesuffix(self._held) if self._held else text)
        if text:
            self._texts.append(text)
            if self.hear is not None:
                self.hear(text)

    def _add_calls(self, part: Mapping[str, Any]) -> bool:
        """Put the pieces of calls together, by index and id; whether there are any.

        A name that differs, or an id of a call's own with a name, begins a call, whatever its index is.
        """
        given = part.get("tool_calls") or ([part["function_call"]] if part.get("function_call") else [])
        deltas = [delta for delta in ([given] if isinstance(given, Mapping) else given) if isinstance(delta, Mapping)]
        for delta in deltas:
            inner, call_id = delta.get("function"), str(delta.get("id") or "")
            function = inner if isinstance(inner, Mapping) else delta
            named = function.get("name")
            name = named.partition("<|")[0] if isinstance(named, str) else ""  # gpt-oss adds special tokens
            index = delta.get("index")
            call = self._call(index, call_id, name)
            call.id = call.id or _whole(call_id)
            call.name = call.name if name == call.name else _whole(call.name + name)
            arguments = function.get("arguments", function.get("parameters"))
            if isinstance(arguments, str):
                if call.arguments == "{}" and arguments:
                    call.arguments = ""
                if arguments != call.arguments or len(arguments) <= 2 or not _is_json(arguments):
                    call.arguments += arguments
            elif arguments is not None:
                call.arguments = json.dumps(arguments)
        return bool(deltas)

    def _call(self, index: Any, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to."""
        same = [call for at, call in self._calls if index is None or at == index]
        if call_id:
            known = next((call for call in same if call.id == call_id), None)
            if known is not None:
                return known
            begins = bool(name) and any(call.id for call in same)
        else:
            begins = bool(name) and bool(same) and bool(same[-1].arguments) and _is_json(same[-1].arguments)
        if (same and not begins) or not (same or call_id or name or not self._calls):
            return (same or [self._calls[-1][1]])[-1]
        self._calls.append((index, _Call()))
        return self._calls[-1][1]

    @property
    def _not_an_answer(self) -> str:
        return "not a stream of an answer" if self._streams else "not an answer"

    def _fault(self, reason: str) -> Exception:
        return self.told(PassingError("bad_response", reason))

    def told(self, fault: Exception) -> Exception:
        """The fault, after which only what was not told yet is asked for again: that cannot be taken back."""
        if isinstance(fault, PassingError | RefusedRequestError) and self._texts and self.hear is not None:
            return CutOffError(fault.kind, f"{fault}, after a part of the reply had come")
        return fault


def read_usage(usage: Mapping[str, Any]) -> tuple[int | None, int | None, int, bool]:
    """Tokens read, written and, of the former, from a cache, and whether the server's sums were corrected.

    What is in the total and in neither part was written (thoughts, as a rule), unless it is what a cache gave or took
    of the prompt; without a total, Anthropic's names say that this comes on top. Tokens for thoughts or sound that are
    more than all that were written come on top of these.
    """
    read = _count(usage, "prompt_tokens", "input_tokens")
    written = _count(usage, "completion_tokens", "output_tokens")
    total = _count(usage, "total_tokens")
    apart = _count(usage, "cache_read_input_tokens") or 0
    of_prompt = [_inside(usage, f"{what}_details") for what in ("prompt_tokens", "input_tokens", "prompt_token")]
    cached = max(apart, *(_count(of, *_CACHED) or 0 for of in (usage, *of_prompt)))
    stored = _count(usage, "cache_creation_input_tokens") or 0
    inside = [
        _count(_inside(usage, of), what) or 0
        for of in ("completion_tokens_details", "output_tokens_details")
        for what in ("reasoning_tokens", "audio_tokens")
    ] + [_count(usage, "reasoning_tokens") or 0]
    if read is None and total and written is not None and total > written:
        return total - written, written, min(cached, total - written), True
    was = read, written
    if read is not None and total is not None and (missing := total - read - (written or 0)) > 0:
        if missing in (cached, cached + stored) and written:
            read += missing
        else:
            written = (written or 0) + missing
    beside = cached + (stored if total is None else 0)
    if read is not None and (beside > read or (total is None and apart + stored and "prompt_tokens" not in usage)):
        read += beside
    if written is not None and max(inside) > written:
        written += max(inside)
    return read, written, min(cached, read or 0), (read, written) != was


def _count(usage: Any, *names: str) -> int | None:
    """The first of these figures that is one: a number of tokens, which may be a fraction or stand in a text."""
    for name in names:
        value = usage.get(name) if isinstance(usage, Mapping) else None
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return math.ceil(value)
    return None


def _text(part: Mapping[str, Any]) -> str:
    """The text of a message: as it is, or in parts, of which thoughts and pictures are none."""
    content = part.get("content") or part.get("refusal") or part.get("text")
    return "".join(_part_texts(content))


def _part_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        yield str(content)
    elif isinstance(content, list):
        for one in content:
            yield from _part_texts(one)
    elif isinstance(content, Mapping) and content.get("type", "text") in ("text", "output_text", "refusal"):
        said = content.get("text", content.get("refusal"))
        yield from _part_texts(said.get("value") if isinstance(said, Mapping) else said)


def _whole(text: str) -> str:
    """Text without halves of characters."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not text.isascii() else text


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _has_error(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value.get("error"))


def _tells_fault(value: Mapping[str, Any]) -> bool:
    """Whether an answer without a choice tells why, under any of the names that servers have for that."""
    names = ("detail", "errors", "error_msg", "error_code") + ("message",) * ("code" in value)
    failed = _inside(value, "base_resp", "status_code")
    return "error" in (value.get("object"), value.get("type")) or bool(failed) or any(map(value.get, names))


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _shown(said: str | bytes) -> str:
    return repr(said[:_SHOWN] if isinstance(said, str) else said[:_SHOWN].decode(errors="replace"))
