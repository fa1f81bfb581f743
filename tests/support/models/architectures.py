"""Tiny models of several architectures."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

SIZE = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZE, num_key_value_heads=2),
    "qwen2": Qwen2Config(**SIZE, num_key_value_heads=1, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZE, num_key_value_heads=2, head_dim=16),
    "gpt_neox": GPTNeoXConfig(**SIZE),
}
END = frozenset({0, 10, 20})


def model_of(config: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
