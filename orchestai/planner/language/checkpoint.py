"""Language planners on disk: a folder in the form of `save_pretrained`, and `orchestai.json` beside the weights.

The folder of a model that was trained whole loads with `AutoModelForCausalLM.from_pretrained`; one with adapters holds
those alone, and the name of the model that they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel

from orchestai.config import TINY, LanguageConfig, PlannerConfig, WorkersConfig
from orchestai.config.section import Section
from orchestai.errors import UserError, first_problem
from orchestai.lm import loading
from orchestai.lm.local_models import PLANNER
from orchestai.planner.files import METADATA, STATE_KEY, saved_config
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.language.checkpoint import tiny_model, tiny_tokenizer
from orchestai.storage import artifacts, digests
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
