"""What is installed: the files that come with the program, and the packages that only some uses need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestai.errors import UserError

_PACKAGE = Path(__file__).parent
_INSTALLED = _PACKAGE / "shipped"
"""Where a built package has its files (setup.py copies them there); a checkout has them beside the package."""
EXTRAS = {
    "local": ("torch", "transformers", "gguf"),
    "train": ("accelerate", "datasets", "math_verify", "matplotlib", "peft", "sklearn", "tensorboard"),
    "gpu": ("bitsandbytes", "deepspeed", "vllm"),
    "mcp": ("mcp",),
    "otel": ("opentelemetry",),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "sagemaker": ("boto3",),
    "wandb": ("wandb",),
}
"""The modules of each extra of pyproject.toml that the program imports."""


def how_to_install(error: ModuleNotFoundError, extra: str = "") -> str | None:
    """One line on a package that is not installed; None if it is none of an extra's.

    Args:
        extra: that the use needs as a whole; by default the first one with this package.
    """
    package = (error.name or "").partition(".")[0]
    found = [name for name, modules in EXTRAS.items() if package in modules]
    return f"{package} is not installed; run: pip install 'orchestai[{extra or found[0]}]'" if found else None


@contextmanager
def needed_for(what: str, extra: str = "") -> Iterator[None]:
    """Import packages of an extra in its body.

    Args:
        what: needs them, for the message.
        extra: as for `how_to_install`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (said := how_to_install(error, extra)) is None:
            raise
        raise UserError(f"{what}: {said}") from None


def shipped(name: Path | str) -> Path:
    """The path of a file or folder that comes with the program, e.g. `config.yaml`; it need not exist."""
    return (_INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent) / name


def here_or_shipped(name: Path | str) -> Path:
    """The same, unless the working directory has one of that name or none is shipped."""
    return Path(name) if Path(name).exists() or not shipped(name).exists() else shipped(name)
