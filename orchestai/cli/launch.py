"""`orchestai launch`: a training on machines that are rented for it, and the server that a training asks."""

from __future__ import annotations

import json
import os
import shlex
import sys
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import Overrides, flag, say
from orchestai.errors import UserError

launch = typer.Typer(no_args_is_help=True, help=__doc__)


@launch.command()
def sagemaker(
    config: Annotated[Path, typer.Option("--config", help="A planner's or agents' configuration, or a TRL recipe.")],
    train: Annotated[
        str | None, flag("train", "phase1, phase2, or a workflow of agents; what the configuration is for, if absent.")
    ] = None,
    instance_type: Annotated[str, flag("instance_type", "Kind of machine.")] = "ml.g5.12xlarge",
    instance_count: Annotated[int, flag("instance_count", "Machines.", minimum=1)] = 1,
    layout: Annotated[str, flag("layout", "A file of accelerate_configs without its ending.")] = "ddp",
    run: Annotated[
        str | None, flag("run", "Name; one that has checkpoints is gone on with. The configuration's, if absent.")
    ] = None,
    output: Annotated[str | None, flag("output", "s3://BUCKET/FOLDER; SAGEMAKER_OUTPUT if absent.")] = None,
    role: Annotated[str | None, flag("role", "ARN of the job's role; SAGEMAKER_ROLE if absent.")] = None,
    image: Annotated[str | None, flag("image", "URI of a PyTorch image; SAGEMAKER_IMAGE if absent.")] = None,
    checkpoint: Annotated[str | None, flag("checkpoint", "Weights to start from: a path, s3://..., or base.")] = None,
    data: Annotated[str | None, flag("data", "Training file of phase 1: a path or s3://...")] = None,
    channel: Annotated[
        list[str] | None, flag("channel", "NAME=PATH or NAME=s3://...: a further input, in /opt/ml/input/data/NAME.")
    ] = None,
    env: Annotated[
        list[str] | None, flag("env", "An environment variable to send along; whoever may see the job can read it.")
    ] = None,
    max_hours: Annotated[float, flag("max_hours", "When the job is stopped.")] = 24.0,
    volume_gb: Annotated[int, flag("volume_gb", "Disk of each machine.", minimum=1)] = 200,
    spot: Annotated[bool, typer.Option("--spot", help="On spare machines, which may be taken away and come back.")] = (
        False
    ),
    source: Annotated[Path, flag("source", "A checkout of OrchestAI.")] = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry_run", "--dry-run", help="Print the request; upload and start nothing.")
    ] = False,
    overrides: Overrides = None,
) -> None:
    """Train on SageMaker: upload the source, start a job, and print its ARN. See docs/machines/launch.md."""
    from orchestai.config import BASE
    from orchestai.launch import sagemaker as bundle
    from orchestai.launch.sagemaker import CHECKPOINT, DATA, Job, check, digest_of, open_session, submit
    from orchestai.launch.trainings import asked

    words = overrides or []
    if not config.resolve().is_relative_to(source.resolve()):
        raise UserError(f"--config {config}: lies outside of --source {source}, so the job would not have it")
    trained, read = asked(config, words, train)
    inputs: dict[str, str] = {}
    for word in channel or ():
        name, _, place = word.partition("=")
        if not (name and place):
            raise UserError(f"--channel {word}: write NAME=PATH or NAME=s3://...")
        inputs[name] = place
    inputs |= {name: given for name, given in ((CHECKPOINT, checkpoint), (DATA, data)) if given not in (None, BASE)}
    if missing := [name for name in env or () if name not in os.environ]:
        raise UserError(f"--env {missing[0]}: is not set here; export it first")
    job = Job(
        run=run or config.stem.replace("_", "-").replace(".", "-"),
        started=datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S"),
        train=trained,
        config=str(config.resolve().relative_to(source.resolve())),
        image=_given(image, "--image", "SAGEMAKER_IMAGE"),
        role=_given(role, "--role", "SAGEMAKER_ROLE"),
        output=_given(output, "--output", "SAGEMAKER_OUTPUT"),
        instance_type=instance_type,
        instance_count=instance_count,
        volume_gb=volume_gb,
        max_hours=max_hours,
        spot=spot,
        layout=layout,
        words=tuple(words),
        channels=inputs,
        env={name: os.environ[name] for name in env or ()},
    )
    names = sorted({*bundle.source_files(source), job.config})
    check(job, read, source, names)
    packed = bundle.pack(source, names)
    if dry_run:
        request = job.request(digest_of(packed))
        print(json.dumps(request | {"Environment": dict.fromkeys(request["Environment"], "...")}, indent=2))
        say(f"source: {len(names)} files, {len(packed) / 1e6:.1f} MB packed; nothing was uploaded or started")
        return
    say(f"started {submit(job, packed, open_session())}", f"checkpoints and results: {job.folder}")


@launch.command()
def vllm(
    config: Annotated[Path, typer.Option("--config", help="The training's configuration, or a TRL recipe.")],
    dry_run: Annotated[bool, typer.Option("--dry_run", "--dry-run", help="Print the command; start nothing.")] = False,
    overrides: Overrides = None,
) -> None:
    """Become the server of vLLM that the rollouts of a training ask, which has the same configuration and overrides."""
    from orchestai.launch.trainings import server_for

    server = server_for(config, overrides or ())
    if dry_run:
        given = [f"{name}={value}" for name, value in server.environment.items()]
        print(" ".join([*given, shlex.join(server.command)]))
        return
    if find_spec("vllm") is None:
        raise UserError("launch vllm: vllm is not installed; pip install 'orchestai[gpu]'")
    os.execve(sys.executable, server.command, {**os.environ, **server.environment})


def _given(value: str | None, name: str, variable: str) -> str:
    if found := value or os.environ.get(variable):
        return found
    raise UserError(f"{name} is missing; give it, or set {variable}")
