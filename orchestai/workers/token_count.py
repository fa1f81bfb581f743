"""Counts tokens where a server does not say how many it read and wrote."""

from __future__ import annotations

import asyncio
import math
from functools import cached_property
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from orchestai.workers.generation import Prompt

_BYTES_PER_TOKEN = 4
"""OpenAI's rule of thumb for English, in bytes of UTF-8 (help.openai.com, "What are tokens and how to count them?")."""
LONG_TOKEN_BYTES = 6
"""Few texts of some length have more bytes per token."""
_MOST_TOKENS_OF_A_TEMPLATE = 64
"""What a chat template may write besides the messages, a system prompt of its own included."""
_MOST_TOKENS_AROUND_A_MESSAGE = 8
_TOKENS_PER_MESSAGE = 3
"""Around every message, and before the reply (OpenAI cookbook, "How to count tokens with tiktoken")."""


def most_tokens(prompt: Prompt) -> int:
    """A bound of the tokens of a prompt by any tokenizer: none makes more tokens of a text than it has bytes."""
    texts = _texts(prompt)
    around = _MOST_TOKENS_OF_A_TEMPLATE + _MOST_TOKENS_AROUND_A_MESSAGE * len(texts)
    return around + sum(len(text.encode()) for text in texts)


def _texts(prompt: Prompt) -> list[str]:
    used = prompt.tool_use
    tools = [] if used is None else [used.tools, used.choice, used.exchange]
    return [*(content for _, content in prompt.messages), *filter(None, [prompt.prefill]), *tools]


class TokenCounter:
    """Counts with the model's own tokenizer where one of its name is on this machine, else by length.

    Args:
        model: name of a model on the hub, or a folder. Nothing is downloaded.
    """

    def __init__(self, model: str) -> None:
        self._model = model

    async def count(self, prompt: Prompt, reply: str) -> tuple[int, int]:
        """Tokens of the prompt and of the reply, each at least 1."""
        return await asyncio.to_thread(self._count, prompt, reply)

    def _count(self, prompt: Prompt, reply: str) -> tuple[int, int]:
        texts = _texts(prompt)
        around = _TOKENS_PER_MESSAGE * (len(texts) + 1)
        return around + sum(map(self._length, texts)), max(self._length(reply), 1)

    def _length(self, text: str) -> int:
        if self._tokenizer is None:
            return math.ceil(len(text.encode()) / _BYTES_PER_TOKEN)
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            known = Path(self._model).is_dir() or try_to_load_from_cache(self._model, "tokenizer_config.json")
            if not known:  # transformers takes seconds to import
                return None
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(self._model, local_files_only=True)
        except (OSError, ValueError):
            return None
