"""Whether this machine can train agents on its GPUs, part by part."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import torch

from orchestai.findings import Finding

_PORT = 29500
_DISK_GB = 50
"""For a model of a few billion weights, its moments and three checkpoints."""


def check_setup(corpus: Path = Path("indexes/wikipedia")) -> list[Finding]:
    """What the launch script and the recipes need.

    Args:
        corpus: the index that recipes search.
    """
    gpus = torch.cuda.device_count()
    port = int(os.environ.get("MASTER_PORT", _PORT))
    free_gb = shutil.disk_usage(".").free / 1e9
    return [
        Finding(
            f"Python {sys.version.split()[0]}", (3, 10) <= sys.version_info[:2] <= (3, 13), True, "take 3.10 to 3.13"
        ),
        Finding(f"PyTorch {torch.__version__}", True, True),
        Finding(f"GPUs: {gpus}", gpus > 0, False, "without one only model=tiny is quick enough"),
        *(_package(name, True) for name in ("accelerate", "transformers", "peft", "datasets", "bm25s")),
        _package("deepspeed", False, "needed by the default layout; or LAYOUT=fsdp"),
        _package("wandb", False, "needed where logging.trackers names it"),
        Finding(f"port {port}", _is_free(port), True, "choose another with MASTER_PORT"),
        Finding(f"disk: {free_gb:.0f} GB free", free_gb > _DISK_GB, False, f"checkpoints may need {_DISK_GB} GB"),
        Finding(f"index {corpus}", corpus.exists(), False, f"orchestai agents index CORPUS --output {corpus}"),
    ]


def _package(name: str, needed: bool, remedy: str = "") -> Finding:
    return Finding(f"package {name}", find_spec(name) is not None, needed, remedy or f"pip install {name}")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
