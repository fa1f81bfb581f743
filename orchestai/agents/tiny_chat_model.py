"""The model of a try-out: random weights, a token per byte, and ChatML."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from orchestai.config.agents import TinyChatConfig

_START, _END = "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_chat_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, and the two of ChatML."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_END,
        additional_special_tokens=[_START],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHATML
    return fast


def tiny_chat_model(config: TinyChatConfig, vocabulary: int, end_id: int, seed: int) -> LlamaForCausalLM:
    """Weights from the seed alone, of deviation 1 / sqrt(hidden) (see `planner.language.tiny.tiny_model`)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=config.hidden,
                intermediate_size=4 * config.hidden,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                max_position_embeddings=config.context,
                tie_word_embeddings=True,
                initializer_range=config.hidden**-0.5,
                bos_token_id=None,
                eos_token_id=end_id,
            )
        )
