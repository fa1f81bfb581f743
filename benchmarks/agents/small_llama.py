"""The model of the learning benchmarks: a small Llama over letters, without any training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|end|>"
UNKNOWN = "?"
_TEMPLATE = "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}"


def small_llama(
    letters: Iterable[str], seed: int, tags: Sequence[str] = (), context: int = 64, heads: int = 4
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model with random weights, and its tokenizer: a token for each letter and each tag, `END` after every turn.

    Args:
        context: most tokens of a conversation.
    """
    vocabulary = {token: i for i, token in enumerate([END, UNKNOWN, *letters])}
    words = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    words.decoder = decoders.Fuse()
    words.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=END, unk_token=UNKNOWN, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = _TEMPLATE
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=1 / 8,
        bos_token_id=None,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config), tokenizer
