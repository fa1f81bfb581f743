"""The model `tiny`: a small Llama that knows nothing yet, and a vocabulary learned from the texts it is to read."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from orchestai.config import PlannerConfig
from orchestai.workers.base import WorkerCard

_END = "<|end|>"
_NUMBERS = 32
"""Places in an instruction that have a token of their own."""
_WORD = r"\p{L}+ ?|\p{N} ?|[^\s\p{L}\p{N}]+ ?|\s+"
"""What no token crosses: words, single digits, punctuation, each with the space after it.

The first word of a quotation is then the same token in the instruction and in the plan, which makes copying easier.
"""


def tiny_tokenizer(config: PlannerConfig, cards: Sequence[WorkerCard], texts: Sequence[str]) -> PreTrainedTokenizerBase:
    """A tokenizer of `vocab_size` tokens, learned from `texts`.

    It has a token for each fixed part of a plan's text, and one for each type and worker with its key,
    so that a plan is hardly longer than its choices. There is no chat template: a prompt is the bare text.
    """
    parts = [
        '{"subtasks":[{"id":',
        ',"instruction":"',
        "...",
        *(f'","task_type":"{kind}' for kind in config.task_types),
        *(f'","worker":"{card.name}","fallback":[' for card in cards),
        *(f'"{card.name}"' for card in cards),
        '],"depends_on":[',
        ']},{"id":',
        "]}]}",
    ]
    numbers = [f"[{i}]" for i in range(1, _NUMBERS)]
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learned.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(config.language.tiny.vocab_size - len(parts) - len(numbers), 257),
        special_tokens=[_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learned.train_from_iterator(texts, trainer)
    learned.add_tokens([AddedToken(text, normalized=False) for text in parts])
    learned.add_tokens([AddedToken(text, normalized=False, rstrip=True) for text in numbers])
    return PreTrainedTokenizerFast(tokenizer_object=learned, eos_token=_END, clean_up_tokenization_spaces=False)


def tiny_model(config: PlannerConfig, tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    """Weights from PyTorch's random state."""
    language, tiny, end = config.language, config.language.tiny, tokenizer.eos_token_id
    context = language.max_prompt_tokens + language.max_new_tokens
    return tiny_llama(len(tokenizer), tiny.hidden, tiny.layers, tiny.heads, context, end)


def tiny_llama(
    vocabulary: int, hidden: int, layers: int, heads: int, context: int, end_id: int | list[int] | None
) -> LlamaForCausalLM:
    """Weights from PyTorch's random state.

    Their deviation is 1 / sqrt(hidden) (LeCun et al., 1998, "Efficient BackProp"): with the 0.02 that is usual for wide
    models, a narrow one takes several times as many steps until it attends to anything.
    """
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            initializer_range=hidden**-0.5,
            bos_token_id=None,
            eos_token_id=end_id,
        )
    )
