"""Runs `orchestai COMMAND` on one thread in a fresh process, and reads what its steps were.

Processes are forked from one that has imported the libraries already: importing them takes longer than a run.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from .families import FAMILIES, INPUTS, INSTRUCTIONS, OUTPUT, PLANNERS

_MEASURED = re.compile(r"seconds|per_second|latency")
"""Figures that differ from run to run."""
_IMPORTED_ONCE = [
    "torch",
    "accelerate",
    "peft",
    "transformers.models.llama.modeling_llama",
    "orchestai.evaluation.systems.evaluate",
]
_SAID = "said.txt"


def environment() -> dict[str, str]:
    """What bits depend on: the same sums, in another order, are other floats."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu": f"{torch.backends.cpu.get_cpu_capability()}, {_processor()}",
    }


def _processor() -> str:
    """Maker, family and model: libraries choose their loops by these too, among the same instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return " ".join(facts.get(key, "?") for key in ("vendor_id", "cpu family", "model"))


def record(family: str, folder: Path) -> list[dict[str, float]]:
    """Run a family in a folder that does not exist yet; one row per line of its metrics, then one on its weights."""
    orchestai(FAMILIES[family], folder)
    (metrics,) = (folder / OUTPUT).glob("*_metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = [{name: value for name, value in row.items() if not _MEASURED.search(name)} for row in rows]
    return [*steps, weights(folder / OUTPUT)]


def plans(folder: Path) -> dict[str, list[Any]]:
    """What each of the kept checkpoints plans for `INSTRUCTIONS`."""
    found: dict[str, list[Any]] = {}
    for name, checkpoint in PLANNERS.items():
        found[name] = []
        for number, instruction in enumerate(INSTRUCTIONS):
            at = folder / f"{name}{number}"
            said = orchestai(("plan", instruction, "--config", "config.yaml", "--checkpoint", str(checkpoint)), at)
            found[name].append(json.JSONDecoder().raw_decode(said, said.index("{\n"))[0])
    return found


def orchestai(arguments: Sequence[str], folder: Path) -> str:
    """Run `orchestai ARGUMENTS` in a new folder that holds the inputs; returns what it printed.

    Raises:
        RuntimeError: it failed; with what it printed.
    """
    shutil.copytree(INPUTS, folder)
    os.environ["OMP_NUM_THREADS"] = "1"
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(_IMPORTED_ONCE)
    process = processes.Process(target=_run, args=(tuple(arguments), folder))
    process.start()
    process.join()
    said = (folder / _SAID).read_text()
    if process.exitcode:
        raise RuntimeError(f"orchestai {' '.join(arguments)}: exit code {process.exitcode}\n{said}")
    return said


def _run(arguments: Sequence[str], folder: Path) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.argv = ["orchestai", *arguments]
    with open(_SAID, "w", buffering=1) as said, redirect_stdout(said), redirect_stderr(said):
        from orchestai.cli import main

        main()


_NO_WEIGHTS = "._extra_state"
"""What modules keep beside their weights, such as hashes of what they have read."""


def weights(folder: Path) -> dict[str, float]:
    """Euclidean norms of all that was learned last: the weights, and, where there are any, the optimizer's moments.

    They do not depend on the names of parameters or on their order.
    """
    saved, moments = [], []
    for path in sorted(folder.rglob("*")):
        if "_last" not in str(path.relative_to(folder)):
            continue
        if path.suffix == ".safetensors":
            saved += load_file(path).values()
        elif path.suffix == ".pth":
            state = torch.load(path, weights_only=True)["model_state_dict"]
            saved += [
                state[key] for key in state if not key.startswith("confidence.") and not key.endswith(_NO_WEIGHTS)
            ]
        if path.suffix in (".pth", ".pt"):
            moments += _tensors(torch.load(path, weights_only=True).get("optimizer_state_dict", {}))
    return {"weights": _norm(saved), **({"moments": _norm(moments)} if moments else {})}


def _tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    inner = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list | tuple) else ()
    return [tensor for each in inner for tensor in _tensors(each)]


def _norm(tensors: Iterable[torch.Tensor]) -> float:
    return math.sqrt(math.fsum(float(tensor.double().square().sum()) for tensor in tensors))
