"""Opens the language model that the section `planner.language` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from orchestai.config import TINY, LanguageConfig, PlannerConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.model_keys import PLANNER
from orchestai.planner.language.tiny import tiny_model, tiny_tokenizer
from orchestai.workers.pool import worker_cards


def open_model(
    planner: PlannerConfig, workers: WorkersConfig, texts: Sequence[str] = ()
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The configured model and its tokenizer, on the CPU (in 4 bits: on the process's GPU), with any fresh adapters.

    Args:
        texts: what the model `tiny` learns its vocabulary from.

    Raises:
        UserError: the model, or a package that it needs, is not there.
    """
    settings = planner.language
    if settings.model == TINY:
        if not texts:
            raise UserError(f"{PLANNER.name}: `tiny` knows nothing before phase 1; pass a checkpoint of phase 1")
        tokenizer = tiny_tokenizer(planner, worker_cards(workers), texts, workers.models_dir)
        tiny: nn.Module = tiny_model(planner, tokenizer)
        tiny.to(dtype=loading.DTYPES[settings.dtype])
        return cast(PreTrainedModel, tiny), tokenizer
    model, tokenizer = loading.read_model(source(settings, workers), settings, PLANNER)
    if settings.lora is not None:
        loading.add_adapter(model, settings.lora)
    return model, tokenizer


def source(settings: LanguageConfig, workers: WorkersConfig) -> str:
    """What `from_pretrained` takes for the configured model.

    Raises:
        UserError: there is no such model, or the name is of a model behind a server.
    """
    return loading.find_source(settings.model, workers.models, workers.models_dir, PLANNER.name)
