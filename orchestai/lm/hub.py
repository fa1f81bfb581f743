"""Where a model of a given name is: in a folder, on the Hugging Face hub, or in the hub's cache on this machine."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

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
        return _cached(name, key, error)
    return name


def _cached(name: str, key: str, error: Exception) -> str:
    try:
        return snapshot_download(name, local_files_only=True)
    except FileNotFoundError:
        raise UserError(
            f"{key}: {name!r} is no folder here and not in the hub's cache, and the hub cannot be reached ({error}); "
            "correct the name, or connect to the network"
        ) from None
