"""The scripts for Slurm and Kubernetes start on every machine what belongs together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from support.repository import REPOSITORY

WORDS = ["train-phase2", "--output_dir", "runs/a b", "tasks.limit=2"]


def test_slurm_starts_a_launcher_on_each_node(tmp_path: Path) -> None:
    """With a Slurm whose `srun` starts two tasks, and a `python` that says what it was given."""
    stand_ins = {
        "scontrol": "printf 'node-7\\nnode-8\\n'",
        "srun": 'echo "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT" > "$(dirname "$0")/seconds"; shift; '
        'for SLURM_NODEID in 0 1; do export SLURM_NODEID; ("$@"); done',
        "python": 'printf "%s|" "$@"; echo',
    }
    for name, script in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NODELIST": "node-[7-8]"}
    env = {**os.environ, **slurm, "SLURM_JOB_ID": "10042", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["scripts/slurm_train.sh", "fsdp", *WORDS]
    said = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True).stdout
    for rank, line in enumerate(said.splitlines()):
        assert line.rstrip("|").split("|") == [
            *("-m", "accelerate.commands.launch", "--config_file", "accelerate_configs/fsdp.yaml"),
            *("--num_processes", "8", "--num_machines", "2", "--machine_rank", str(rank)),
            *("--main_process_ip", "node-7", "--main_process_port", "20042", "-m", "orchestai.cli", *WORDS),
        ]
    assert len(said.splitlines()) == 2
    assert 60 < int((tmp_path / "seconds").read_text()) < 300, "to save between Slurm's warning and its end"
    dry = subprocess.run(
        command, cwd=REPOSITORY, env=env | {"DRY_RUN": "1"}, capture_output=True, text=True, check=True
    )
    assert dry.stdout.startswith("'srun'")


def test_kubernetes_gets_pods_that_find_each_other() -> None:
    command = ["scripts/kubernetes_train.sh", "run-a", "registry/orchestai:1", "claim", "2", "8", "fsdp", *WORDS]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    service, job = yaml.safe_load_all(made)
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["completionMode"]) == (2, 2, "Indexed")
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert service["metadata"]["name"] == spec["subdomain"] == "run-a"
    launch, _, *words = container["args"]
    assert words == WORDS
    assert "--num_processes 16 --num_machines 2" in launch
    assert '--machine_rank "$JOB_COMPLETION_INDEX" --main_process_ip run-a-0.run-a' in launch
    (timeout,) = container["env"]
    assert timeout["name"] == "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
    assert 60 < int(timeout["value"]) < spec["terminationGracePeriodSeconds"], "before Kubernetes kills"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
