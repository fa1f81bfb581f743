"""What works here with a configuration, part by part, each with its mend."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.findings import Finding
from orchestai.initial_config import unfinished
from orchestai.sandbox.levels import choose_level, refusal
from orchestai.sandbox.sandbox import Sandbox
from orchestai.threads import usable_cores
from orchestai.workers.pool import WorkerPool

_CACHE_GB = 5
"""The cache of generations holds four, converted models and logs come on top."""


async def examine(config: Config, checkpoint: str | None = None) -> list[Finding]:
    """Check Python, torch, the sandbox, keys, prices and cards, workers, the disk, and whether the checkpoint fits.

    Keys are looked for, never printed. Servers are asked whether they are there; no model is asked anything.
    """
    models = config.workers.models_dir.absolute()
    kept = next(folder for folder in (models, *models.parents) if folder.exists())
    return [
        *_programs(),
        *_sandbox(config),
        *unfinished(config.workers),
        *await _workers(config),
        *(_disk(folder) for folder in dict.fromkeys((Path.cwd(), kept))),
        *([] if checkpoint is None else [_checkpoint(config, checkpoint)]),
    ]


def _programs() -> list[Finding]:
    supported = (3, 10) <= sys.version_info[:2] <= (3, 13)
    findings = [Finding(f"Python {sys.version.split()[0]}", supported, True, "take 3.10 to 3.13")]
    try:
        number = version("torch")
        import torch

        on_gpu = torch.cuda.is_available()
        device = f"on {torch.cuda.get_device_name()}" if on_gpu else f"on the CPU, {usable_cores()} cores"
        findings.append(Finding(f"torch {number}, {device}", True, True))
    except PackageNotFoundError:
        findings.append(Finding("torch", False, True, "pip install torch"))
    return findings


def _sandbox(config: Config) -> list[Finding]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            level, _ = choose_level(config.sandbox.level)
    except UserError as error:
        return [Finding("sandbox", False, True, str(error))]
    if level == "namespaces":
        return [Finding("sandbox: programs are isolated by namespaces", True, False)]
    reason = refusal() if level == "none" else "limits alone hold them; sandbox.level=process asks for no more"
    return [Finding("sandbox: programs are isolated by namespaces", False, False, reason)]


async def _workers(config: Config) -> list[Finding]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sandbox = Sandbox.from_config(config.sandbox)
        with sandbox:
            async with WorkerPool.from_config(config.workers, sandbox) as pool:
                problems = await pool.problems()
    except UserError as error:
        problems = [str(error)]
    what = f"workers: {', '.join(config.workers.pool)}"
    return [Finding(what, False, True, problem) for problem in problems] or [Finding(what, True, True)]


def _disk(folder: Path) -> Finding:
    free_gb = shutil.disk_usage(folder).free / 1e9
    if not os.access(folder, os.W_OK):
        return Finding(f"disk: {folder}", False, True, "it cannot be written; choose another folder")
    remedy = f"the cache of generations alone may take {_CACHE_GB} GB; free some, or set workers.cache_dir"
    return Finding(f"disk: {free_gb:.0f} GB free at {folder}", free_gb > _CACHE_GB, False, remedy)


def _checkpoint(config: Config, checkpoint: str) -> Finding:
    from orchestai.planner.checkpoint import open_checkpoint

    try:
        open_checkpoint(checkpoint, config.planner, config.workers)
    except UserError as error:
        return Finding(f"checkpoint {checkpoint}", False, True, str(error))
    return Finding(f"checkpoint {checkpoint} fits the pool", True, True)
