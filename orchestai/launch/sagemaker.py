"""A training as a job of SageMaker: what is asked of it, and the files that it reads."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestai.config import Config
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.installed import needed_for
from orchestai.launch.trainings import PHASE1, PHASE2, extras_of, paths_of, served_here

_LEFT_OUT = frozenset({"tests", "docs", "benchmarks", "checkpoints", "execution_logs", "runs", "__pycache__"})
"""Folders that no training reads; what begins with a dot is left out, too."""
ENTRY = "sagemaker_training/scripts/sm_mt_grpo_train.sh"
"""What the container starts."""


def source_files(folder: Path) -> list[str]:
    """Files of a checkout, relative to it: those that git tracks, else all, without what no training reads."""
    if not (folder / ENTRY).is_file():
        raise UserError(f"--source {folder}: no {ENTRY} there; name a checkout of OrchestAI")
    tracked = subprocess.run(["git", "-C", str(folder), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if tracked.returncode == 0:
        names = [name for name in tracked.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    kept = (name for name in names if not any(part in _LEFT_OUT or part.startswith(".") for part in Path(name).parts))
    return sorted(name for name in kept if (folder / name).is_file())


def pack(folder: Path, names: list[str]) -> bytes:
    """A .tar.gz of these files, with their permissions but without times and owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in sorted(names):
            about = archive.gettarinfo(folder / name, name)
            about.mtime, about.uid, about.gid, about.uname, about.gname = 0, 0, 0, "", ""
            with (folder / name).open("rb") as file:
                archive.addfile(about, file)
    return packed.getvalue()


CODE, CHECKPOINT, DATA = "code", "checkpoint", "training"
"""Channels: the source, weights to start from, and the training file of phase 1."""
TRAIN_KEY, CONFIG_KEY, LAYOUT_KEY = "orchestai_train", "orchestai_config", "orchestai_layout"
"""Hyperparameters that are no overrides: `phase1`, `phase2` or a workflow; a file of the source; a layout."""
ROOT = Path("/opt/ml")
_UNPACK = (
    f"mkdir -p {ROOT}/code && tar -xzf {ROOT}/input/data/{CODE}/source.tar.gz -C {ROOT}/code && cd {ROOT}/code && "
    f"exec bash {ENTRY}"
)
_FILES = (".jsonl", ".json", ".csv", ".tsv", ".gz", ".parquet")
"""Endings of files of tasks; what has none of them is the name of a data set."""
_COMPLETE = "SKIP_INSTALL"
"""The variable that says to the container's entry that the image has everything."""


@dataclass(frozen=True)
class Job:
    """What is trained, on what, and where results go.

    Attributes:
        run: names the folder below `output` that keeps checkpoints; another job of this run goes on from them.
        started: when, as 20260131-120000; with `run`, the job's name.
        train: `phase1`, `phase2` (without a checkpoint of the configured language model), or a workflow of agents.
        config: the configuration, relative to the source.
        layout: a file of accelerate_configs without its ending.
        words: overrides, `key=value`.
        image: URI of an image with PyTorch.
        output: S3 URI of a folder.
        channels: further inputs by name: S3 URIs, or files and folders that are uploaded.
        env: further environment variables of the container. Everybody who may describe the job can read them.
    """

    run: str
    started: str
    train: str
    config: str
    image: str
    role: str
    output: str
    instance_type: str = "ml.g5.12xlarge"
    instance_count: int = 1
    volume_gb: int = 200
    max_hours: float = 24.0
    spot: bool = False
    layout: str = "ddp"
    words: tuple[str, ...] = ()
    channels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """S3 URI of the run's folder."""
        return f"{self.output.rstrip('/')}/{self.run}"

    def request(self, source_digest: str) -> dict[str, Any]:
        """The arguments of `CreateTrainingJob`."""
        seconds = round(self.max_hours * 3600)
        own = {TRAIN_KEY: self.train, CONFIG_KEY: self.config, LAYOUT_KEY: self.layout}
        stopping = {"MaxRuntimeInSeconds": seconds} | ({"MaxWaitTimeInSeconds": 2 * seconds} if self.spot else {})
        inputs = {CODE: self.source_uri(source_digest), **{name: self.uri_of(name) for name in self.channels}}
        return {
            "TrainingJobName": f"{self.run}-{self.started}",
            "AlgorithmSpecification": {
                "TrainingImage": self.image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["bash", "-c", _UNPACK],
            },
            "RoleArn": self.role,
            "HyperParameters": own | dict(word.split("=", 1) for word in self.words),
            "InputDataConfig": [
                {
                    "ChannelName": name,
                    "DataSource": {
                        "S3DataSource": {
                            "S3DataType": "S3Prefix",
                            "S3Uri": uri,
                            "S3DataDistributionType": "FullyReplicated",
                        }
                    },
                    "InputMode": "File",
                }
                for name, uri in inputs.items()
            ],
            "OutputDataConfig": {"S3OutputPath": f"{self.folder}/output"},
            "CheckpointConfig": {"S3Uri": f"{self.folder}/checkpoints", "LocalPath": str(ROOT / "checkpoints")},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_gb,
            },
            "StoppingCondition": stopping,
            "EnableManagedSpotTraining": self.spot,
            "Environment": {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", **self.env},
            "Tags": [{"Key": "orchestai-run", "Value": self.run}],
        }

    def source_uri(self, digest: str) -> str:
        """Folder of the archive; the name is that of its contents, so that equal sources are kept once."""
        return f"{self.output.rstrip('/')}/sources/{digest}"

    def uri_of(self, channel: str) -> str:
        """Where a channel's files are, or will be: apart from those of an earlier job of the run, and of channels whose
        names begin alike, since SageMaker takes all that begins with a URI; so end a folder of S3 with a slash."""
        given = self.channels[channel]
        return given if given.startswith("s3://") else f"{self.folder}/input/{self.started}/{channel}/"


def check(job: Job, config: Config | AgentConfig, source: Path, files: Collection[str]) -> None:
    """Refuse a job that could not begin, before anything is uploaded and a machine is paid for.

    Args:
        config: what `job.config` says, with the job's words.
        source: a checkout.
        files: of it, relative to it, that the job will have.
    """
    if f"accelerate_configs/{job.layout}.yaml" not in files:
        known = sorted(Path(name).stem for name in files if name.startswith("accelerate_configs/"))
        raise UserError(f"--layout {job.layout}: there are {', '.join(known)}")
    for channel, given in job.channels.items():
        if not given.startswith("s3://") and not Path(given).exists():
            raise UserError(f"{_flag(channel)} {given}: no such file or folder")
    if job.train == PHASE1 and DATA not in job.channels:
        raise UserError("--train phase1: learns from a training file; give it with --data")
    if job.train != PHASE1 and DATA in job.channels:
        raise UserError(f"--data: {job.train} learns from tasks; a training file is for --train phase1")
    if (
        job.train == PHASE2
        and CHECKPOINT not in job.channels
        and not (isinstance(config, Config) and config.planner.kind == "language")
    ):
        raise UserError(
            "phase 2 begins with a checkpoint of phase 1; give it with --checkpoint (planner.kind=language may begin "
            "without)"
        )
    tasks = Path(config.tasks.path or "")
    if tasks.suffix in _FILES and not (tasks.exists() or tasks.is_relative_to(ROOT)):
        raise UserError(f"tasks.path={tasks}: no such file")
    if job.train != PHASE1:
        if (url := served_here(config)) is not None:
            raise UserError(f"{url}: nothing starts a server of vLLM in the job; name one that the job can reach")
        needs = {} if job.env.get(_COMPLETE) else extras_of(config)
        for word, package in needs.items():
            raise UserError(
                f"{word}: the job does not install {package}; change the word, or, if --image has {package} and all "
                f"else that sagemaker_training/requirements.txt names, export {_COMPLETE}=1 and add --env {_COMPLETE}"
            )
    for key, path in paths_of(config).items():
        inside, channel = path.resolve(), key.split(".")[-1]
        if not any((source / name).resolve().is_relative_to(inside) for name in files):
            raise UserError(
                f"{key}={path}: the job would not have it, since git does not track it here; add it to git, or "
                f"give --channel {channel}={path} and {key}={ROOT}/input/data/{channel}/{inside.name}"
            )


def open_session() -> Any:
    """A `boto3.Session`, as the environment and `~/.aws` say."""
    with needed_for("launch sagemaker"):
        import boto3
        from botocore.exceptions import ProfileNotFound
    try:
        return boto3.Session()
    except ProfileNotFound as error:
        raise UserError(f"launch sagemaker: {error}; set AWS_PROFILE to another") from None


def submit(job: Job, source: bytes, session: Any) -> str:
    """Upload the source and the files of channels, and start the job.

    Args:
        session: a `boto3.Session`.

    Returns:
        the job's ARN.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

    digest = digest_of(source)
    try:
        s3, service = session.client("s3"), session.client("sagemaker")
        bucket, key = _parts(f"{job.source_uri(digest)}/source.tar.gz")
        s3.put_object(Bucket=bucket, Key=key, Body=source)
        for channel, given in job.channels.items():
            if not given.startswith("s3://"):  # a folder keeps its name, a training file what lies beside it
                (bucket, prefix), local = _parts(job.uri_of(channel)), Path(given)
                paths = [local] if local.is_file() else sorted(path for path in local.rglob("*") if path.is_file())
                if channel == DATA and local.is_file():
                    paths += [path for path in sidecars(local) if path.exists()]
                for path in paths:
                    s3.upload_file(str(path), bucket, f"{prefix}{path.relative_to(local.parent)}")
        started = service.create_training_job(**job.request(digest))
    except NoRegionError:
        raise UserError("launch sagemaker: no region is set; export AWS_DEFAULT_REGION=us-east-1, or yours") from None
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise UserError(f"launch sagemaker: {error}; look at your credentials, the role and the bucket") from None
    return str(started["TrainingJobArn"])


def _flag(channel: str) -> str:
    return {CHECKPOINT: "--checkpoint", DATA: "--data"}.get(channel, f"--channel {channel}")


def digest_of(source: bytes) -> str:
    """The name of an archive: 16 hexadecimal digits of its contents."""
    return hashlib.sha256(source).hexdigest()[:16]


def sidecars(training_file: Path) -> tuple[Path, Path]:
    """What a training file may have beside it: what is known of its examples, and of the workers."""
    from orchestai.data.training_file import meta_path
    from orchestai.planner.files import estimate_path

    return meta_path(training_file), estimate_path(training_file)


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
