"""Reads language models from a folder or the hub, with adapters where they are asked for."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from orchestai.config import LoraConfig, ModelConfig
from orchestai.config.backend import TrainedModelConfig
from orchestai.errors import UserError
from orchestai.installed import needed_for
from orchestai.lm import weights
from orchestai.lm.local_models import ModelKeys

ADAPTER, REFERENCE = "default", "reference"
_ADAPTER_FILE = "adapter_model.safetensors"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def read_model(
    path: str, settings: TrainedModelConfig, keys: ModelKeys
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer from a folder, or a name on the hub.

    Args:
        keys: of the configuration, for messages.

    Raises:
        UserError: they cannot be loaded.
    """
    options: dict[str, Any] = {"dtype": DTYPES[settings.dtype]}
    if settings.load_in_4bit:
        options |= _four_bits(keys)
    with quietly(), without_notice_of_kernel():
        model, tokenizer = weights.read_pretrained(path, keys.name, **options)
    if settings.load_in_4bit:
        _keep_unpacked(model)
    return model, tokenizer


def find_source(name: str, known: Mapping[str, ModelConfig], cache_dir: Path, key: str) -> str:
    """What `from_pretrained` takes for a model.

    Args:
        name: on the hub, of a folder, or one of `known`.
        known: `workers.models`.
        key: the configuration's key that has the name, for messages.

    Raises:
        UserError: there is no such model, or the name is of a model behind a server.
    """
    if name in known:
        if known[name].kind != "huggingface":
            raise UserError(
                f"{key}: {name!r} is asked through {known[name].kind}; only a model of kind huggingface can be trained"
            )
        name, key = known[name].name, f"workers.models.{name}.name"
    return weights.source(name, cache_dir, key)


def add_adapter(model: PreTrainedModel, lora: LoraConfig) -> None:
    """Freeze the model and give it adapters to learn, in float32; they change nothing at first.

    Raises:
        UserError: there is no layer of some target, or none that can have an adapter.
    """
    with needed_for("lora", "train"), without_notice_of_kernel():
        import peft

    targets: str | list[str] = list(lora.targets)
    if targets == ["all-linear"]:
        targets = "all-linear"
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    try:
        model.add_adapter(config, ADAPTER)
    except ValueError as error:
        raise UserError(f"lora.targets={targets}: {' '.join(str(error).split())[:200]}") from None
    set_adapter_format(model)
    learn = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    idle = [name for name in targets if not any(f".{name}." in f".{one}" for one in learn)]
    if idle and targets != "all-linear":
        kinds = (torch.nn.Linear, torch.nn.Embedding)
        others = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, kinds)}
        others = others - {"base_layer", ADAPTER}
        raise UserError(f"lora.targets: this model has no layer {idle[0]!r}; others are {', '.join(sorted(others))}")


def load_adapter(model: PreTrainedModel, lora: LoraConfig, folder: Path) -> None:
    """Give the model the adapter that `save_pretrained` wrote, to be used or trained on, in full precision.

    Raises:
        UserError: it cannot be read, or does not fit the model.
    """
    from peft import set_peft_model_state_dict

    add_adapter(model, lora)

    try:
        saved = load_file(folder / _ADAPTER_FILE)
        named = {name.removeprefix("base_model.model."): tensor for name, tensor in saved.items()}
        found: Any = set_peft_model_state_dict(model, named, ADAPTER)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder}: its adapter cannot be loaded: {str(error).splitlines()[0]}") from error
    missing = [name for name in found.missing_keys if _is_of(ADAPTER, name)]
    if missing or found.unexpected_keys:
        raise UserError(f"{folder}: its adapter is for another model ({[*missing, *found.unexpected_keys][0]})")


def set_adapter_format(model: PreTrainedModel) -> None:
    """Adapters, and nothing else, learn, in float32 whatever the model's own dtype is."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(_is_of(ADAPTER, name))
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def _is_of(adapter: str, name: str) -> bool:
    """Whether a parameter is the adapter's: those of linear layers have its name within, those of embeddings last."""
    return adapter in name.split(".")


def has_adapter(model: PreTrainedModel) -> bool:
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def keep_reference(model: PreTrainedModel) -> None:
    """Keep a frozen copy of the adapter as it is now, to which `reference` goes back."""
    configs: Any = model.peft_config  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # a second adapter is wanted
        model.add_adapter(configs[ADAPTER], REFERENCE)
    with torch.no_grad():
        parameters = dict(model.named_parameters())
        for name, parameter in parameters.items():
            if _is_of(REFERENCE, name):
                learned = ".".join(ADAPTER if part == REFERENCE else part for part in name.split("."))
                parameter.data = parameters[learned].detach().clone()
    model.set_adapter(ADAPTER)
    set_adapter_format(model)


@contextmanager
def reference(model: PreTrainedModel) -> Iterator[None]:
    """The model that `keep_reference` kept, or the one without adapter where it kept none, while the block lasts."""
    from peft.functional import set_adapter

    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    kept = REFERENCE in model.peft_config  # type: ignore[attr-defined]
    if kept:
        set_adapter(model, REFERENCE, inference_mode=True)
    else:
        model.disable_adapters()
    try:
        yield
    finally:
        if kept:
            set_adapter(model, ADAPTER)
        else:
            model.enable_adapters()
        for parameter in learned:
            parameter.requires_grad_(True)


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a text, by the model's generation settings and by its tokenizer; there may be none."""
    configured = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = [configured] if isinstance(configured, int) else list(configured or ())
    return frozenset(i for i in [*ends, tokenizer.eos_token_id] if i is not None)


@contextmanager
def quietly() -> Iterator[None]:
    """Without transformers' progress bars."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


@contextmanager
def without_notice_of_kernel() -> Iterator[None]:
    """Let bitsandbytes be imported, as peft does wherever it is installed, without its advice to install a kernel.

    The kernel multiplies weights of 4 bits that are packed for a CPU, and here they never are.
    """
    logger = logging.getLogger("bitsandbytes.backends.cpu.ops")

    def other(record: logging.LogRecord) -> bool:
        return "gemm_4bit_forward" not in record.getMessage()

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def device_of_process() -> torch.device:
    """The device that accelerate will choose for this process, which a launcher has numbered."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def _four_bits(keys: ModelKeys) -> dict[str, Any]:
    with needed_for(f"{keys.section}.load_in_4bit"), without_notice_of_kernel():
        import bitsandbytes  # noqa: F401
    from transformers import BitsAndBytesConfig

    quantised = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_quant_storage=torch.bfloat16,
    )
    return {"quantization_config": quantised, "dtype": torch.bfloat16, "device_map": {"": device_of_process()}}


def _keep_unpacked(model: PreTrainedModel) -> None:
    """Keep weights of 4 bits from being packed on a CPU when they are first multiplied in evaluation mode.

    bitsandbytes has no gradient for packed ones: nothing below them would learn after the first sample.
    """
    from bitsandbytes.nn import Linear4bit

    for layer in model.modules():
        if isinstance(layer, Linear4bit):
            layer.support_avx512bf16_for_cpu = False
