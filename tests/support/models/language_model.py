"""A real, tiny causal language model with a byte-level tokenizer, for tests of what runs models."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from support.models.architectures import SIZE

END = "<|end|>"
_PRINTABLE = 95
"""Ids from 1 up to this one are the printable ASCII characters."""
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate([END, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, clean_up_tokenization_spaces=False)
    fast.chat_template = TEMPLATE
    return fast


def tiny_model(*, tied: bool = False) -> LlamaForCausalLM:
    """Two layers, grouped attention, random weights that are large enough for varied text."""
    size = SIZE | {"vocab_size": 257, "intermediate_size": 64, "num_hidden_layers": 2, "initializer_range": 0.4}
    words = {"max_position_embeddings": 2048, "bos_token_id": None, "eos_token_id": 0, "tie_word_embeddings": tied}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**size | words, num_key_value_heads=2)).eval()
    model.lm_head.weight.data[_PRINTABLE:] = 0  # seldom the likeliest, so that texts are readable
    return model


def save_tiny_model(folder: Path) -> Path:
    """A folder that `ModelConfig(kind="huggingface", name=folder)` loads."""
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
