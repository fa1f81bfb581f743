"""The entry of a SageMaker container: from its files below /opt/ml to a training, and from its results back there.

It reads `hyperparameters.json` and `resourceconfig.json` in `input/config`, trains into `checkpoints/`, which SageMaker
keeps in S3 and brings back to the next job of the run, and goes on from what is there. The best weights are copied to
`model/` at the end, the last ones too where the job was stopped; that a training failed is written to `output/failure`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from orchestai.config import BASE
from orchestai.launch.sagemaker import CHECKPOINT, CONFIG_KEY, DATA, LAYOUT_KEY, ROOT, TRAIN_KEY, sidecars
from orchestai.launch.trainings import PHASE1, PHASE2
from orchestai.storage import artifacts

_PORT = "29500"
_TO_SAVE_S = "110"
"""From SIGTERM to the launcher's SIGKILL; SageMaker's own follows after 120 seconds."""
_STATES = {PHASE1: "phase1_last*"}
_STATE_OF_RL = "phase2_state*"
"""What a run leaves that can be gone on with."""
_RESULTS = ("*_best*", "*.yaml", "*.json", "*_metrics.jsonl")
_LAST = "*_last*"


@dataclass(frozen=True)
class Hosts:
    """The machines of a job.

    Attributes:
        names: in the order that all of them know.
        current: this one.
        interface: the network that they share; empty where it is not said.
        gpus: of each.
    """

    names: tuple[str, ...]
    current: str
    interface: str = ""
    gpus: int = 0

    @classmethod
    def read(cls, root: Path, gpus: int) -> Hosts:
        """As SageMaker says; one host where it says nothing."""
        path = root / "input/config/resourceconfig.json"
        said = json.loads(path.read_text()) if path.exists() else {}
        current = said.get("current_host", "localhost")
        return cls(tuple(said.get("hosts", [current])), current, said.get("network_interface_name", ""), gpus)

    @property
    def rank(self) -> int:
        return self.names.index(self.current)

    def environment(self) -> dict[str, str]:
        """What processes need to find each other, and to save before they are killed."""
        names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
        network = dict.fromkeys(names, self.interface) if self.interface and len(self.names) > 1 else {}
        return network | {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": _TO_SAVE_S}


def training_command(hyperparameters: Mapping[str, str], hosts: Hosts, root: Path) -> list[str]:
    """The training in as many processes as there are GPUs; resumed where there are checkpoints of it."""
    words = dict(hyperparameters)
    train, config, layout = words.pop(TRAIN_KEY), words.pop(CONFIG_KEY), words.pop(LAYOUT_KEY, "ddp")
    command = {PHASE1: ["train-phase1"], PHASE2: ["train-phase2"]}.get(train, ["agents", "train", train])
    output = root / "checkpoints"
    command += ["--config", config, "--output_dir", str(output)]
    for channel, flag in ((CHECKPOINT, "--checkpoint"), (DATA, "--data")):
        folder = root / "input/data" / channel
        if folder.is_dir():
            # What was uploaded lies in it by its name, a training file with those beside it. Of a folder that was named
            # as s3://... it has the contents.
            entries = list(folder.iterdir())
            beside = {path for entry in entries for path in sidecars(entry)}
            alone = [entry for entry in entries if entry not in beside]
            given = alone[0] if len(alone) == 1 else folder
            if channel == CHECKPOINT and given.name.endswith(".tar.gz"):  # a job's results, as SageMaker packs them
                with tarfile.open(given) as archive:
                    archive.extractall(root / "unpacked", filter="data")
                given = root / "unpacked"
            command += [flag, str(given)]
        elif train == PHASE2 and channel == CHECKPOINT:
            command += [flag, BASE]
    if any(output.glob(_STATES.get(train, _STATE_OF_RL))):
        command.append("--resume")
    # The service keeps no order. Short words stand for several keys, which dotted ones may change.
    command += [f"{key}={words[key]}" for key in sorted(words, key=lambda key: ("." in key, key))]
    processes = max(hosts.gpus, 1) * len(hosts.names)  # one per GPU, or one per host without any
    if processes == 1:
        return [sys.executable, "-m", "orchestai.cli", *command]
    return [
        *(sys.executable, "-m", "accelerate.commands.launch", "--config_file", f"accelerate_configs/{layout}.yaml"),
        *("--num_processes", str(processes), "--num_machines", str(len(hosts.names))),
        *("--machine_rank", str(hosts.rank), "--main_process_ip", hosts.names[0], "--main_process_port", _PORT),
        *("-m", "orchestai.cli", *command),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the files below the root say; the exit code is the training's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="instead of /opt/ml")
    root = parser.parse_args(argv).root.resolve()
    import torch

    hosts = Hosts.read(root, torch.cuda.device_count())
    hyperparameters = json.loads((root / "input/config/hyperparameters.json").read_text())
    command = training_command(hyperparameters, hosts, root)
    (root / "checkpoints").mkdir(parents=True, exist_ok=True)
    print(" ".join(command), flush=True)
    code, stopped = _run(command, hosts.environment())
    if code and not stopped:
        failure = root / "output/failure"
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(f"the training on {hosts.current} ended with exit code {code}; its log says why")
    elif hosts.rank == 0:
        checkpoints = root / "checkpoints"
        model = root / "model"
        patterns = (*_RESULTS, _LAST) if stopped else _RESULTS
        model.mkdir(parents=True, exist_ok=True)
        for path in sorted({path for pattern in patterns for path in checkpoints.glob(pattern)}):
            if path.name.startswith("."):  # unfinished
                continue
            before = model / path.name
            if before.is_dir():
                shutil.rmtree(before)
            else:
                before.unlink(missing_ok=True)
            artifacts.clone(path, before)
    return code


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, bool]:
    """The exit code of a command, and whether SageMaker stopped it: its SIGTERM goes on to the command, which saves."""
    early: list[int] = []  # before there is a command to pass them on to
    passed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        early.append(number)

    signal.signal(signal.SIGTERM, note)
    with subprocess.Popen(command, env={**os.environ, **environment}) as training:

        def forward(number: int, frame: FrameType | None) -> None:
            passed.append(number)
            training.send_signal(number)

        signal.signal(signal.SIGTERM, forward)
        for number in early:
            training.send_signal(number)
        return training.wait(), bool(early or passed)
