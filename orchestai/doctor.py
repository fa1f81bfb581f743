"""What works here with a configuration, and whether agents can be trained here, part by part, each with its mend."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from orchestai.config import Config, WorkersConfig
from orchestai.errors import UserError
from orchestai.initial_config import ANY_MODEL, is_private
from orchestai.sandbox.levels import choose_level, refusal
from orchestai.sandbox.sandbox import Sandbox
from orchestai.threads import usable_cores
from orchestai.workers.pool import WorkerPool

_CACHE_GB = 5
"""The cache of generations holds four, converted models and logs come on top."""
_TRAINING_GB = 50
"""For a model of a few billion weights, its moments and three checkpoints."""
_PRICES = {"price_per_call_usd", "price_per_mtok_in_usd", "price_per_mtok_out_usd"}
_REMEDIES = {
    "price": "set price_per_mtok_in_usd and price_per_mtok_out_usd there (0 if free); until then it counts as free",
    "card": "it says what any model does; write there what this one does best, since planners choose by it",
}


@dataclass(frozen=True)
class Finding:
    """One part of the set-up.

    Attributes:
        needed: whether nothing works without it.
        remedy: what to do where it is missing.
    """

    part: str
    there: bool
    needed: bool
    remedy: str = ""

    def __str__(self) -> str:
        mark = "ok     " if self.there else "missing" if self.needed else "absent "
        return f"{mark} {self.part}" + ("" if self.there or not self.remedy else f": {self.remedy}")


def _python() -> Finding:
    supported = (3, 10) <= sys.version_info[:2] <= (3, 13)
    return Finding(f"Python {sys.version.split()[0]}", supported, True, "take 3.10 to 3.13")


async def examine(config: Config, checkpoint: str | None = None) -> list[Finding]:
    """Check Python, torch, the sandbox, keys, prices and cards, workers, the disk, and whether the checkpoint fits.

    Keys are looked for, never printed. Servers are asked whether they are there; no model is asked anything.
    """
    findings = [_python()]
    try:
        number = version("torch")
        import torch

        on_gpu = torch.cuda.is_available()
        device = f"on {torch.cuda.get_device_name()}" if on_gpu else f"on the CPU, {usable_cores()} cores"
        findings.append(Finding(f"torch {number}, {device}", True, True))
    except PackageNotFoundError:
        findings.append(Finding("torch", False, True, "pip install torch"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            level, _ = choose_level(config.sandbox.level)
            reason = "limits alone hold them; sandbox.level=process asks for no more"
            reason = refusal() if level == "none" else reason
            isolated = level == "namespaces"
            findings.append(Finding("sandbox: programs are isolated by namespaces", isolated, False, reason))
        except UserError as error:
            findings.append(Finding("sandbox", False, True, str(error)))
        findings += unfinished(config.workers)
        what = f"workers: {', '.join(config.workers.pool)}"
        try:
            with Sandbox.from_config(config.sandbox) as sandbox:
                async with WorkerPool.from_config(config.workers, sandbox) as pool:
                    problems = await pool.problems()
        except UserError as error:
            problems = [str(error)]
    findings += [Finding(what, False, True, problem) for problem in problems] or [Finding(what, True, True)]

    models = config.workers.models_dir.absolute()
    kept = next(folder for folder in (models, *models.parents) if folder.exists())
    for folder in dict.fromkeys((Path.cwd(), kept)):
        free_gb = shutil.disk_usage(folder).free / 1e9
        remedy = f"the cache of generations alone may take {_CACHE_GB} GB; free some, or set workers.cache_dir"
        finding = Finding(f"disk: {free_gb:.0f} GB free at {folder}", free_gb > _CACHE_GB, False, remedy)
        if not os.access(folder, os.W_OK):
            finding = Finding(f"disk: {folder}", False, True, "it cannot be written; choose another folder")
        findings.append(finding)

    if checkpoint is not None:
        from orchestai.planner.checkpoint import open_checkpoint

        try:
            open_checkpoint(checkpoint, config.planner, config.workers)
            findings.append(Finding(f"checkpoint {checkpoint} fits the pool", True, True))
        except UserError as error:
            findings.append(Finding(f"checkpoint {checkpoint}", False, True, str(error)))
    return findings


def unfinished(workers: WorkersConfig) -> list[Finding]:
    """Keys, prices and cards of models on servers, which `init` cannot know."""
    served = {name: model for name, model in workers.models.items() if model.kind == "openai_api"}
    holders: dict[str, list[str]] = {}
    for name, model in served.items():
        if model.api_key_env:
            holders.setdefault(model.api_key_env, []).append(name)
    findings = [
        Finding(
            f"key of workers.models.{', '.join(names)} in {variable}",
            bool(os.environ.get(variable)),
            False,
            f"export {variable}=..., unless the server wants none",
        )
        for variable, names in holders.items()
    ]
    pool = {name: worker for name, worker in workers.pool.items() if worker.model in served}
    free = {name for name, model in served.items() if model.base_url and is_private(model.base_url)}
    unknown = {
        "price": [name for name, it in pool.items() if it.model not in free and not _PRICES & it.model_fields_set],
        "card": [name for name, it in pool.items() if it.card.endswith(ANY_MODEL)],
    }
    return findings + [
        Finding(f"{what} of workers.pool.{', '.join(names)}", False, False, _REMEDIES[what])
        for what, names in unknown.items()
        if names
    ]


def check_training(corpus: Path = Path("indexes/wikipedia")) -> list[Finding]:
    """What the launch script and the recipes of agents need.

    Args:
        corpus: the index that recipes search.
    """
    import torch

    gpus, port = torch.cuda.device_count(), int(os.environ.get("MASTER_PORT", "29500"))
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
            is_free = True
        except OSError:
            is_free = False
    needed = {name: f"pip install {name}" for name in ("accelerate", "transformers", "peft", "datasets", "bm25s")}
    useful = {
        "deepspeed": "needed by the default layout; or LAYOUT=fsdp",
        "wandb": "needed where logging.trackers names it",
    }
    free_gb = shutil.disk_usage(".").free / 1e9
    disk = f"checkpoints may need {_TRAINING_GB} GB"
    return [
        _python(),
        Finding(f"PyTorch {torch.__version__}", True, True),
        Finding(f"GPUs: {gpus}", gpus > 0, False, "without one only model=tiny is quick enough"),
        *(
            Finding(f"package {name}", find_spec(name) is not None, name in needed, remedy)
            for name, remedy in (needed | useful).items()
        ),
        Finding(f"port {port}", is_free, True, "choose another with MASTER_PORT"),
        Finding(f"disk: {free_gb:.0f} GB free", free_gb > _TRAINING_GB, False, disk),
        Finding(f"index {corpus}", corpus.exists(), False, f"orchestai agents index CORPUS --output {corpus}"),
    ]
