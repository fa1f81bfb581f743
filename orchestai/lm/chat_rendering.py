"""Renders chats as token ids: those read once, and conversations, of which no token is ever tokenized again.

A chat template writes a whole conversation as one text. What a role reads in its next turn is `previous prompt +
what it wrote + tail`, where the tail is what the template writes after the turn: the tokens that end it, the messages
told since, and the beginning of the next turn. Only the tail is text that becomes tokens. This is the whole
conversation as the template writes it if the template keeps what it wrote before, which is tried at the start on a
made-up conversation. A template that does not (Qwen3 takes thoughts out of earlier turns) has its conversations written
anew for every turn; then every turn makes a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from orchestai.errors import UserError
from orchestai.lm.local_models import AGENTS
from orchestai.tasks.dialogue import fold_messages
from orchestai.types import Message, Speaker

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}:\n{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:\n{% endif %}"
)
"""For models without a chat template: the speaker, a colon, and the message on lines of their own; the end-of-sequence
token ends a turn of the assistant."""

_TOOL_CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "tallest tower"}}\n</tool_call>'
_THOUGHTS = "<think>\nI should look it up.\n</think>\n\n"
_PROBE: tuple[Message, ...] = (
    {"role": "system", "content": "You may search."},
    {"role": "user", "content": "Which tower is the tallest?"},
    {"role": "assistant", "content": _TOOL_CALL},
    {"role": "tool", "content": "The tallest tower stands in a city."},
    {"role": "assistant", "content": "That one."},
    {"role": "user", "content": "And the second?"},
    {"role": "assistant", "content": "Another one."},
    {"role": "user", "content": "Thank you."},
)


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[tuple[str, str]],
    prefill: str = "",
    *,
    key: str,
    **options: Any,
) -> list[int]:
    """Token ids of (speaker, text) messages that are read once, with the beginning of the assistant's turn.

    A model without a chat template reads the bare texts, a line each. What a template refuses, or passes over, is told
    as `fold_messages` does.

    Args:
        prefill: what the assistant's turn begins with.
        key: the configuration's key that names the model, for messages.
        options: for the template, such as `enable_thinking`.

    Raises:
        UserError: the template refuses the messages.
    """
    if tokenizer.chat_template is None:
        text = "".join(f"{content}\n" for _, content in messages) + prefill
        bare = list(tokenizer(text, add_special_tokens=False).input_ids)
        begins = tokenizer(text).input_ids[:1] == [tokenizer.bos_token_id] != bare[:1]
        return [*([tokenizer.bos_token_id] if begins else []), *bare]  # without the tokens that end a text
    chat: list[Mapping[str, object]] = [{"role": role, "content": content} for role, content in messages]
    try:
        text = _render(tokenizer, chat, options, key)
    except UserError:
        text = _render(tokenizer, fold_messages(chat, has_system=False, alternates=True), options, key)
    else:
        if not all(content.strip() in text for _, content in messages):  # a template may pass over what it has not
            folded = _render(tokenizer, fold_messages(chat, has_system=False, alternates=True), options, key)
            text = folded if all(content.strip() in folded for _, content in messages) else text
    return list(tokenizer(text + prefill, add_special_tokens=False).input_ids)


def _render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, object]], options: Any, key: str
) -> str:
    """What the chat template writes, with the beginning of the assistant's turn.

    Raises:
        UserError: the template refuses the messages.
    """
    chat: Any = messages
    try:
        return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **options))
    except (TemplateError, TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        speakers = ", ".join(str(message["role"]) for message in messages)
        raise UserError(f"{key}: the model's chat template refuses a conversation of {speakers}: {error}") from error


class IncrementalChatRenderer:
    """Turns conversations into prompts for one model.

    What a template does not know is told otherwise: a tool's result as the user's message if the template has no
    tools, the system's message at the head of the first message if it has none, and messages of one speaker in a row as
    one where it wants speakers to alternate. The text of special tokens in what a role is told is broken up
    (`< |im_end|>`), so that no tool can end a turn.

    Args:
        thinking: let models think aloud that can be told not to (`enable_thinking` of their templates).
        key: the configuration's key that names the model, for messages.

    Attributes:
        end_ids: tokens with which the template ends a turn; empty where it ends turns with words.
        forks: why turns cannot be put together and each is a row of its own; empty where they can.

    Raises:
        UserError: the template cannot be used at all.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, thinking: bool = False, key: str = AGENTS.name) -> None:
        self._key = key
        self._tokenizer: Any = tokenizer
        self._options: dict[str, Any] = {"enable_thinking": thinking}
        if tokenizer.chat_template is None:
            self._options["chat_template"] = PLAIN_TEMPLATE
        special = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._special = re.compile("|".join(map(re.escape, sorted(special.values(), key=len)[::-1])) or r"(?!)")
        self._has_system = self._has_tools = True
        self._alternates = False
        self._has_system = self._writes("system", "user", "assistant")
        self._has_tools = self._writes("user", "assistant", "tool")
        self._alternates = not self._writes("user", "user")
        self.end_ids = frozenset(self._tail(_PROBE[1:3], 1)[:1]) & special.keys()
        thinking_aloud: list[Message] = [
            {"role": "assistant", "content": _THOUGHTS + message["content"]}
            if message["role"] == "assistant"
            else message
            for message in _PROBE
        ]
        self.forks = self._probe(_PROBE) or self._probe(thinking_aloud)

    def decode(self, written: Sequence[int]) -> str:
        """What the assistant said with these ids, without special tokens."""
        return str(self._tokenizer.decode(written, skip_special_tokens=True))

    def render(self, messages: Sequence[Message]) -> list[int]:
        """The whole conversation, and the beginning of the assistant's turn, as ids.

        Raises:
            UserError: the template refuses the messages.
        """
        return self._ids(self._text(messages))

    def extend(
        self, read: Sequence[int], written: Sequence[int], ended: bool, messages: Sequence[Message], known: int
    ) -> list[int]:
        """The next prompt: `read + written + tail`, or the whole conversation anew where `forks` says so.

        A token that ended the turn, but is not the template's, is left out, so that this is what the template writes.

        Args:
            read: ids of the last prompt.
            written: ids that the assistant wrote after it, the one that ended its turn included.
            ended: whether there is one.
            messages: all so far.
            known: how many of them the ids stand for; the last of these is what the assistant wrote.
        """
        if self.forks:
            return self.render(messages)
        return self._extend(read, written, ended, messages, known)

    def _extend(
        self, read: Sequence[int], written: Sequence[int], ended: bool, messages: Sequence[Message], known: int
    ) -> list[int]:
        tail = self._tail(messages, known - 1)
        if ended and tail[:1] == [written[-1]]:
            tail = tail[1:]
        elif ended:
            written = written[:-1]
        return [*read, *written, *tail]

    def _tail(self, messages: Sequence[Message], turn: int) -> list[int]:
        """Ids of what the template writes after the words of a turn of the assistant."""
        mark = "<turn>"
        while any(mark in message["content"] for message in messages):
            mark = f"<{mark}>"
        marked: list[Message] = [*messages]
        marked[turn] = {"role": "assistant", "content": mark}
        return self._ids(self._text(marked).rpartition(mark)[2])

    def _text(self, messages: Sequence[Message]) -> str:
        return _render(self._tokenizer, self._adapted(messages), self._options, self._key)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _adapted(self, messages: Sequence[Message]) -> list[Message]:
        adapted: list[Message] = []
        for message in messages:
            speaker, content = message["role"], message["content"]
            if speaker != "assistant":
                content = self._special.sub(lambda match: f"{match[0][0]} {match[0][1:]}", content)
            if speaker == "tool" and not self._has_tools:
                speaker, content = "user", f"<tool_response>\n{content}\n</tool_response>"
            adapted.append({"role": speaker, "content": content})
        folded: Any = fold_messages(adapted, has_system=self._has_system, alternates=self._alternates)
        return list(folded)

    def _writes(self, *speakers: Speaker) -> bool:
        """Whether the template writes what these say one after the other."""
        try:
            text = self._text([{"role": speaker, "content": f"words{i}"} for i, speaker in enumerate(speakers)])
        except UserError:
            return False
        return all(f"words{i}" in text for i in range(len(speakers)))

    def _probe(self, messages: Sequence[Message]) -> str:
        """Why turns of this conversation cannot be put together; empty where they can."""
        read: list[int] = []
        for turn, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            following = next((i for i in range(turn + 1, len(messages)) if messages[i]["role"] == "assistant"), None)
            begun, whole = self._text(messages[:turn]), self._text(messages[:following])
            said = whole.find(message["content"], len(begun))
            if not whole.startswith(begun) or said < 0:
                return f"the chat template writes a turn otherwise once more follows: {message['content'][:20]!r}..."
            read = read or self._ids(begun)
            spoken = self._ids(whole[: said + len(message["content"])])
            if spoken[: len(read)] != read:
                return "the last token before a turn depends on the turn's first words"
            written = [*spoken[len(read) :], *sorted(self.end_ids)]
            read = self._extend(read, written, bool(self.end_ids), messages[:following], turn + 1)
            if read != self._ids(whole):
                return "the tokenizer joins the end of a turn with what follows it"
        return ""
