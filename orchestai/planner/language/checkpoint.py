"""Language planners on disk: a folder in the form of `save_pretrained`, and `orchestai.json` beside the weights.

The folder of a model that was trained whole loads with `AutoModelForCausalLM.from_pretrained`; one with adapters holds
those alone, and the name of the model that they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from orchestai.config import TINY, LanguageConfig, PlannerConfig, WorkersConfig
from orchestai.config.section import Section
from orchestai.errors import UserError, first_problem
from orchestai.lm import loading
from orchestai.lm.local_models import PLANNER
from orchestai.planner.files import METADATA, STATE_KEY, saved_config
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.storage import artifacts, digests
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards

FORMAT = "orchestai.language-planner/1"
"""Says what the folder is; the number grows when older programs could not read it."""
_REMEDY = "pass another checkpoint, or train again"
STATE, ESTIMATE, _VALUE_HEAD = "training_state.pt", "worker_estimate.pt", "value_head.safetensors"
_OF_THE_WEIGHTS = (
    *("model", "tiny", "lora", "max_prompt_tokens", "max_new_tokens"),
    *("assign", "describe", "quote", "few_shot"),
)
"""Keys of `planner.language` that the weights were made for; a loaded planner keeps them."""


def save_language_planner(path: Path | str, planner: LanguagePlanner, config: Section, **facts: Any) -> None:
    """Write a planner with its tokenizer, its configuration and the pool that it was trained for.

    Args:
        facts: what else is known (`epoch`, `val_loss`, ...): plain values go to `orchestai.json`, the estimate of the
            workers to `worker_estimate.pt`, the others (states of optimizers, ...) to `training_state.pt`; a file is
            there only where it holds something.
    """
    estimate = facts.pop(STATE_KEY, None)
    plain = {key: value for key, value in facts.items() if _is_plain(value)}
    state = {key: value for key, value in facts.items() if key not in plain}
    metadata = {
        "format": FORMAT,
        "config": config.model_dump(mode="json"),
        "planner": planner.config.model_dump(mode="json"),
        "task_types": list(planner.config.task_types),
        "cards": [asdict(card) for card in planner.cards],
        "versions": artifacts.versions(),
        **plain,
    }
    with artifacts.replacing_folder(path) as folder:
        with loading.quietly():
            planner.model.save_pretrained(folder)
        planner.tokenizer.save_pretrained(folder)
        if planner.policy.value_head is not None:
            save_file(planner.policy.value_head.state_dict(), folder / _VALUE_HEAD)
        if estimate is not None:
            digests.save_torch(folder / ESTIMATE, estimate)
        if state:
            digests.save_torch(folder / STATE, state)
        artifacts.write_json(folder / METADATA, metadata)
        digests.write_sums(folder)


def open_language_planner(
    settings: PlannerConfig, workers: WorkersConfig, texts: Sequence[str] = (), *, value_head: bool = False
) -> LanguagePlanner:
    """The configured model as it is before any training here.

    Args:
        texts: what the model `tiny` learns its vocabulary from.
    """
    language, cards = settings.language, worker_cards(workers)
    if language.model == TINY:
        if not texts:
            raise UserError(f"{PLANNER.name}: `tiny` knows nothing before phase 1; pass a checkpoint of phase 1")
        tokenizer = tiny_tokenizer(settings, cards, texts)
        tiny: nn.Module = tiny_model(settings, tokenizer)
        tiny.to(dtype=loading.DTYPES[language.dtype])
        model = cast(PreTrainedModel, tiny)
    else:
        model, tokenizer = loading.read_model(_source(language, workers), language, PLANNER)
        if language.lora is not None:
            loading.add_adapter(model, language.lora)
    return LanguagePlanner(settings, cards, model, tokenizer, value_head=value_head).eval()


def _source(settings: LanguageConfig, workers: WorkersConfig) -> str:
    """What `from_pretrained` takes for the configured model."""
    return loading.find_source(settings.model, workers.models, workers.models_dir, PLANNER.name)


def load_language_planner(
    path: Path | str, settings: PlannerConfig, workers: WorkersConfig, *, value_head: bool = False
) -> LanguagePlanner:
    """A planner for the configured workers, in evaluation mode; its adapters can be trained on.

    Args:
        value_head: with a value head: the saved one, or else a new one.
    """
    path = Path(path)
    cards = worker_cards(workers)
    metadata = read_metadata(path)
    digests.check_sums(path, _REMEDY)
    try:
        made_for = saved_config(metadata["planner"]).language
    except (KeyError, TypeError, ValueError) as error:
        raise other_version(path, error) from None
    if not made_for.describe and [card["name"] for card in metadata["cards"]] != [card.name for card in cards]:
        raise UserError(
            f"{path}: was trained without descriptions of the workers, so it knows its own pool alone; set that "
            "pool, or train again with planner.language.describe=true"
        )
    kept = {key: getattr(made_for, key) for key in _OF_THE_WEIGHTS}
    language = settings.language.model_copy(update=kept)
    own = settings.model_copy(update={"language": language})
    if made_for.lora is None:
        model, tokenizer = loading.read_model(str(path), language, PLANNER)
    else:
        model, _ = loading.read_model(_source(language, workers), language, PLANNER)
        loading.load_adapter(model, made_for.lora, path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    planner = LanguagePlanner(own, cards, model, tokenizer, value_head=value_head)
    if planner.policy.value_head is not None and (path / _VALUE_HEAD).exists():
        planner.policy.value_head.load_state_dict(load_file(path / _VALUE_HEAD))
    digests.check_finite(path, {name: weight for name, weight in planner.named_parameters() if weight.requires_grad})
    return planner.eval()


def read_metadata(path: Path | str) -> dict[str, Any]:
    """What `orchestai.json` says."""
    path = Path(path)
    artifacts.restore_folder(path)
    if (path / METADATA).exists():
        digests.check_sums(path, _REMEDY, METADATA)
    try:
        metadata = json.loads((path / METADATA).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no planner's folder (it has no {METADATA}); train first, or name another") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path / METADATA}: not readable ({error}); pass another folder, or train again") from None
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise UserError(f"{path}: not a planner of this program (format {found!r}, not {FORMAT!r})")
    return metadata


def read_state(path: Path | str) -> Mapping[str, Any]:
    """All facts that were saved with a planner."""
    metadata = read_metadata(path)
    try:
        state = digests.load_torch(Path(path) / STATE, "train again")
    except FileNotFoundError:
        raise UserError(f"{path}: holds a planner, but no state of training ({STATE}) to go on from") from None
    return {**metadata, **state}


def other_version(path: Path, error: Exception) -> UserError:
    """What to raise where a checkpoint does not hold what this version writes; says the first thing in one line."""
    said = first_problem(error) if isinstance(error, ValidationError) else str(error)
    return UserError(f"{path}: a planner checkpoint of another version ({said}); train again")


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


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
