"""What is asked of SageMaker, field by field, and what its container makes of the files that it gets."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.errors import UserError
from orchestai.launch import bundle, container
from orchestai.launch.asked import asked
from orchestai.launch.container import Hosts, training_command
from orchestai.launch.sagemaker import Job, digest_of, submit
from orchestai.planner.checkpoint_files import METADATA, last_of, locate
from support.repository import REPOSITORY

ROLE = "arn:aws:iam::123456789012:role/Training"
JOB = Job(
    run="tools",
    started="20260131-120000",
    train="tool_use",
    config="configs/agents/tool_use_small.yaml",
    image="repository/pytorch:2",
    role=ROLE,
    output="s3://bucket/runs/",
    instance_type="ml.g5.2xlarge",
    instance_count=2,
    max_hours=1.5,
    spot=True,
    words=("model=tiny", "training.phase2_rl.learning_rate=1e-5"),
    channels={"corpus": "s3://elsewhere/corpus"},
    env={"HF_TOKEN": "secret"},
)
HYPERPARAMETERS = JOB.hyperparameters()


def test_the_request_is_what_the_service_documents() -> None:
    request = JOB.request("0123")
    entry = request["AlgorithmSpecification"].pop("ContainerEntrypoint")
    assert entry[:2] == ["bash", "-c"]
    assert entry[2].endswith(f"exec bash {bundle.ENTRY}")
    assert max(map(len, entry)) <= 256  # what the service takes
    assert request == {
        "TrainingJobName": "tools-20260131-120000",
        "AlgorithmSpecification": {"TrainingImage": "repository/pytorch:2", "TrainingInputMode": "File"},
        "RoleArn": ROLE,
        "HyperParameters": {
            "orchestai_train": "tool_use",
            "orchestai_config": "configs/agents/tool_use_small.yaml",
            "orchestai_layout": "ddp",
            "model": "tiny",
            "training.phase2_rl.learning_rate": "1e-5",
        },
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
            for name, uri in (("code", "s3://bucket/runs/sources/0123"), ("corpus", "s3://elsewhere/corpus"))
        ],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs/tools/output"},
        "CheckpointConfig": {"S3Uri": "s3://bucket/runs/tools/checkpoints", "LocalPath": "/opt/ml/checkpoints"},
        "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 2, "VolumeSizeInGB": 200},
        "StoppingCondition": {"MaxRuntimeInSeconds": 5400, "MaxWaitTimeInSeconds": 10800},
        "EnableManagedSpotTraining": True,
        "Environment": {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", "HF_TOKEN": "secret"},
        "Tags": [{"Key": "orchestai-run", "Value": "tools"}],
    }


def test_the_service_takes_it_and_has_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 checks every field against the service's own model, and moto keeps what was asked."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    (tmp_path / "phase1_best").mkdir()
    (tmp_path / "phase1_best" / "weights").write_text("w")
    for name in ("plans.json", "plans.meta.json", "plans.estimate.pt", "other.json"):
        (tmp_path / name).touch()
    channels = {"checkpoint": str(tmp_path / "phase1_best"), "training": str(tmp_path / "plans.json")}
    job = Job(**{**vars(JOB), "channels": channels})
    with moto.mock_aws():
        session = boto3.Session(region_name="us-east-1")
        session.client("s3").create_bucket(Bucket="bucket")
        arn = submit(job, b"source", session)
        assert arn.endswith("training-job/tools-20260131-120000")
        kept = session.client("sagemaker").describe_training_job(TrainingJobName="tools-20260131-120000")
        asked = job.request(digest_of(b"source"))
        for field in asked.keys() - {"Tags", "AlgorithmSpecification", "Environment"}:  # which moto does not tell
            assert kept[field] == asked[field], field
        assert asked["AlgorithmSpecification"].items() <= kept["AlgorithmSpecification"].items()
        stored = session.client("s3").list_objects_v2(Bucket="bucket")["Contents"]
        assert {entry["Key"] for entry in stored} == {
            f"runs/sources/{digest_of(b'source')}/source.tar.gz",
            "runs/tools/input/20260131-120000/checkpoint/phase1_best/weights",
            "runs/tools/input/20260131-120000/training/plans.json",
            "runs/tools/input/20260131-120000/training/plans.meta.json",
            "runs/tools/input/20260131-120000/training/plans.estimate.pt",
        }
        with pytest.raises(UserError, match="look at your credentials"):
            submit(Job(**{**vars(job), "output": "s3://no-such-bucket/x"}), b"source", session)


def test_a_folder_of_s3_is_taken_without_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker takes all that begins with a URI: of `runs/a` also `runs/ab`."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        session = boto3.Session(region_name="us-east-1")
        s3 = session.client("s3")
        s3.create_bucket(Bucket="bucket")
        for key in ("old/a/model.tar.gz", "old/ab/model.tar.gz", "old/plans.json"):
            s3.put_object(Bucket="bucket", Key=key, Body=b"")

        def taken(uri: str) -> str:
            name = f"tools{len(uri)}"
            submit(Job(**{**vars(JOB), "run": name, "channels": {"checkpoint": uri}}), b"source", session)
            asked = session.client("sagemaker").describe_training_job(TrainingJobName=f"{name}-{JOB.started}")
            channel = next(one for one in asked["InputDataConfig"] if one["ChannelName"] == "checkpoint")
            return channel["DataSource"]["S3DataSource"]["S3Uri"]

        assert taken("s3://bucket/old/a") == taken("s3://bucket/old/a/") == "s3://bucket/old/a/"
        assert taken("s3://bucket/old/plans.json") == "s3://bucket/old/plans.json"
        assert taken("s3://bucket") == "s3://bucket/"
        with pytest.raises(UserError, match=r"--checkpoint s3://bucket/old/c: no file and no folder of this name"):
            taken("s3://bucket/old/c")


def test_equal_sources_make_an_equal_archive_without_tests_and_secrets(tmp_path: Path) -> None:
    for name in (bundle.ENTRY, "orchestai/a.py", ".env", "tests/test_a.py", "runs/weights"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    names = bundle.source_files(tmp_path)
    assert names == ["orchestai/a.py", bundle.ENTRY]
    packed = bundle.pack(tmp_path, names)
    (tmp_path / "orchestai/a.py").touch()
    assert bundle.pack(tmp_path, names) == packed
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == names
    with pytest.raises(UserError, match="name a checkout"):
        bundle.source_files(tmp_path / "orchestai")


@pytest.mark.parametrize(
    ("file", "train"),
    [
        ("config.yaml", "phase2"),
        ("configs/agents/deepcoder.yaml", "deepcoder"),
        ("local_training/hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml", "tool_use"),
        ("configs/magrpo_arxiv_config.yaml", "writing"),
    ],
)
def test_a_configuration_says_what_is_trained(file: str, train: str) -> None:
    assert asked(REPOSITORY / file)[0] == train


TO_SERVICE = ["--role", ROLE, "--image", "i", "--output", "s3://b/x", "--dry_run"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "configs/agents/deepcoder.yaml", "tasks.limt=2"], "tasks.limt"),
        (["--config", "configs/agents/deepcoder.yaml", "--train", "nonsense"], "phase1, phase2, .*deepcoder"),
        (["--config", "configs/agents/deepcoder.yaml", "--layout", "zero9"], "--layout zero9: there are ddp, "),
        (["--config", "configs/agents/deepcoder.yaml", "--checkpoint", "nowhere"], "--checkpoint nowhere: no such"),
        (["--config", "configs/agents/deepcoder.yaml", "--channel", "a=nowhere"], "--channel a nowhere: no such"),
        (["--config", "config.yaml"], "begins with a checkpoint of phase 1"),
        (["--config", "config.yaml", "--train", "phase1"], "give it with --data"),
        (
            ["--config", "config.yaml", "--checkpoint", "s3://b/c", "--data", "s3://b/d"],
            "--data: phase2 learns from tasks",
        ),
        (["--config", "configs/agents/deepcoder.yaml", "--data", "s3://b/d"], "--data: deepcoder learns from tasks"),
        (["--config", "config.yaml", "--checkpoint", "s3://b/c", "tasks.path=no/tasks.jsonl"], "tasks.jsonl: no such"),
        (["--config", "configs/agents/deepcoder.yaml", "model.backend=vllm_server"], "nothing starts a server of vLLM"),
        (
            ["--config", "configs/agents/deepcoder.yaml", "model.backend=vllm"],
            "does not install vllm; .*SKIP_INSTALL=1",
        ),
        (["--config", "configs/agents/deepcoder.yaml", "execution.backend=ray"], "does not install ray"),
        (["--config", "configs/agents/deepcoder.yaml", "model.backend=ray"], "model.backend=ray: .* not install ray"),
        (
            ["--config", "configs/bigcodebench/cpu.yaml", "planner.language.backend=vllm"],
            "planner.language.backend=vllm: the job does not install vllm",
        ),
        (
            [
                *("--config", "configs/agents/deepcoder.yaml", "model.backend=replay"),
                "model.recording=no/run.jsonl",
            ],
            "model.recording=no/run.jsonl: no such file",
        ),
        (
            ["--config", "configs/agents/deepcoder.yaml", "model.backend=replay", "model.recording=UNTRACKED"],
            "--channel recording=.*model.recording=/opt/ml/input/data/recording/tasks.jsonl",
        ),
        (
            ["--config", "configs/agents/deepcoder.yaml", "--channel", "my data=s3://b/c"],
            "--channel my data: a name has",
        ),
        (["--config", "configs/agents/deepcoder.yaml", "--max_hours", "0"], "--max_hours 0: write how many"),
        (["--config", "configs/agents/deepcoder.yaml", "--max_hours", "nan"], "--max_hours nan: write how many"),
        (["--config", "configs/agents/deepcoder.yaml", "--max_hours", "inf"], "--max_hours inf: write how many"),
        (["--config", "configs/agents/deepcoder.yaml", "--output", "s3://"], "--output s3://: write s3://BUCKET"),
        (["--config", "configs/agents/deepcoder.yaml", "--run", "-".join("a" * 41)], "hyphens alone, 41 at most"),
        (["--config", "config.yaml", "--checkpoint", "s3://b/c", "tasks.path=UNTRACKED"], "git does not track it"),
        (
            ["--config", "configs/agents/tool_use.yaml", "agents.workflow_args.corpus=UNTRACKED"],
            "--channel corpus=.*agents.workflow_args.corpus=/opt/ml/input/data/corpus/tasks.jsonl",
        ),
    ],
)
def test_a_job_that_could_not_begin_is_refused_before_it_costs_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    (tmp_path / "tasks.jsonl").touch()
    words = [word.replace("UNTRACKED", str(tmp_path / "tasks.jsonl")) for word in words]
    refused = CliRunner().invoke(app, ["launch", "sagemaker", *TO_SERVICE, *words])
    assert isinstance(refused.exception, UserError), refused.output
    assert re.search(said, str(refused.exception))


@pytest.mark.parametrize("word", ["recording=UNTRACKED", "vllm.base_url=http://localhost:8000"])
def test_phase_1_may_have_what_only_phase_2_would_sample_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    recording = tmp_path / "run.jsonl"
    recording.touch()
    backend = "replay" if word.startswith("recording") else "vllm_server"
    words = ["launch", "sagemaker", "--config", "configs/bigcodebench/cpu.yaml", *TO_SERVICE, "--train", "phase1"]
    words += ["--data", "s3://b/d", f"planner.language.backend={backend}"]
    said = CliRunner().invoke(app, [*words, f"planner.language.{word.replace('UNTRACKED', str(recording))}"])
    assert said.exit_code == 0, said.exception


def test_a_dry_run_prints_the_request_but_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a planner that is a language model, which may begin without a checkpoint."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("MY_TOKEN", "secret")
    words = ["launch", "sagemaker", "--config", "configs/bigcodebench/cpu.yaml", *TO_SERVICE, "--checkpoint", "base"]
    said = CliRunner().invoke(app, [*words, "--env", "MY_TOKEN", "--instance_count", "4", "tasks.limit=2"])
    assert said.exit_code == 0, said.output
    assert '"InstanceCount": 4' in said.output
    assert '"tasks.limit": "2"' in said.output
    assert "secret" not in said.output
    assert '"ChannelName": "checkpoint"' not in said.output
    refused = CliRunner().invoke(app, [*words[:4], "--dry_run"])
    assert "SAGEMAKER_IMAGE" in str(refused.exception)


def test_an_image_that_has_everything_may_have_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("SKIP_INSTALL", "1")
    words = ["launch", "sagemaker", "--config", "configs/agents/deepcoder.yaml", *TO_SERVICE, "model.backend=vllm"]
    said = CliRunner().invoke(app, [*words, "--env", "SKIP_INSTALL"])
    assert said.exit_code == 0, said.output


def test_hosts_with_gpus_become_one_launch(tmp_path: Path) -> None:
    (tmp_path / "input/data/checkpoint/phase1_best").mkdir(parents=True)
    hosts = Hosts(("algo-1", "algo-2"), "algo-2", "eth0", gpus=8)
    command = training_command({**HYPERPARAMETERS, "orchestai_train": "phase2"}, hosts, tmp_path)
    launcher, training = command[: command.index("-m", 2)], command[command.index("-m", 2) :]
    assert launcher[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    assert dict(zip(launcher[3::2], launcher[4::2], strict=True)) == {
        "--config_file": "accelerate_configs/ddp.yaml",
        "--num_processes": "16",
        "--num_machines": "2",
        "--machine_rank": "1",
        "--main_process_ip": "algo-1",
        "--main_process_port": "29500",
    }
    assert training[:3] == ["-m", "orchestai.cli", "train-phase2"]
    assert training[training.index("--checkpoint") + 1] == str(tmp_path / "input/data/checkpoint/phase1_best")
    assert training[-2:] == ["model=tiny", "training.phase2_rl.learning_rate=1e-5"]
    assert "--resume" not in training
    assert hosts.environment()["NCCL_SOCKET_IFNAME"] == "eth0"
    assert 60 < int(hosts.environment()["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < 120, "SageMaker kills after two minutes"


def test_a_checkpoint_is_found_however_it_came(tmp_path: Path) -> None:
    """As a folder that was uploaded with its name; as what is in one, which s3://... brings; or not at all."""
    hyperparameters, alone = {**HYPERPARAMETERS, "orchestai_train": "phase2"}, Hosts(("a",), "a")

    def given() -> str:
        command = training_command(hyperparameters, alone, tmp_path)
        return command[command.index("--checkpoint") + 1]

    assert given() == "base"
    channel = tmp_path / "input/data/checkpoint"
    (channel / "phase1_best").mkdir(parents=True)
    assert given() == str(channel / "phase1_best")
    (channel / "phase1_best").rmdir()
    for name in ("config.json", "model.safetensors"):
        (channel / name).touch()
    assert given() == str(channel)


def test_the_results_of_a_job_begin_the_next_as_the_service_packs_them(tmp_path: Path) -> None:
    """`s3://.../output/JOB/output/model.tar.gz`, which is no planner until it is unpacked."""
    channel, best = tmp_path / "input/data/checkpoint", tmp_path / "model/phase2_best"
    channel.mkdir(parents=True)
    best.mkdir(parents=True)
    (best / METADATA).write_text("{}")
    with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
        archive.add(best, "phase2_best")
    for train in ("phase2", "tool_use"):
        command = training_command({**HYPERPARAMETERS, "orchestai_train": train}, Hosts(("a",), "a"), tmp_path)
        given = command[command.index("--checkpoint") + 1]
        assert locate(given) == last_of(given) == Path(given) / "phase2_best"


def test_short_words_come_before_those_that_change_what_they_mean(tmp_path: Path) -> None:
    """SageMaker keeps hyperparameters in no order."""
    words = {"agents.epochs": "2", "model": "tiny", "model.max_new_tokens": "8"}
    command = training_command({**words, **HYPERPARAMETERS}, Hosts(("a",), "a"), tmp_path)
    said = [word for word in command if "=" in word]
    assert said == ["model=tiny", "agents.epochs=2", "model.max_new_tokens=8", "training.phase2_rl.learning_rate=1e-5"]


def test_what_a_job_left_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/phase2_state.pt").touch()
    assert "--resume" in training_command(HYPERPARAMETERS, Hosts(("a",), "a"), tmp_path)


def test_a_failure_is_said_where_the_service_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _root(tmp_path, {**HYPERPARAMETERS, "no.such.key": "1"})
    monkeypatch.chdir(REPOSITORY)
    assert container.main(["--root", str(tmp_path)]) == 2
    assert "exit code 2" in (tmp_path / "output/failure").read_text()
    assert not (tmp_path / "model").exists()


STOPPED = """
import os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[1])
def save(number, frame):
    (folder / "phase2_last").mkdir()
    (folder / "phase2_last" / "agents.json").write_text("update 7")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
(folder / "phase2_best.pth").write_text("update 5")
(folder / ".phase2_last.half").write_text("torn")
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()
"""


def test_a_job_that_is_stopped_leaves_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spot machine that is taken away, `StopTrainingJob`, `--max_hours`: SIGTERM, after which SageMaker uploads."""
    _root(tmp_path, HYPERPARAMETERS)
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "checkpoints")]
    monkeypatch.setattr(container, "training_command", lambda *_: command)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert container.main(["--root", str(tmp_path)]) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"phase2_best.pth", "phase2_last"}
    assert (tmp_path / "model/phase2_last/agents.json").read_text() == "update 7"
    assert last_of(tmp_path / "model").name == "phase2_last"
    assert not (tmp_path / "output/failure").exists()


@pytest.mark.parametrize("moment", ["before the training", "as it is handed on"])
def test_a_stop_reaches_the_training_once(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """A second would interrupt what it saves."""
    sent: list[int] = []

    class Training:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            if moment == "before the training":
                os.kill(os.getpid(), signal.SIGTERM)

        def __enter__(self) -> Training:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def send_signal(self, number: int) -> None:
            sent.append(number)

        def wait(self) -> int:
            return 128 + signal.SIGTERM

    before, install, installed = signal.getsignal(signal.SIGTERM), signal.signal, []

    def installing(number: int, handler: Any) -> None:
        install(number, handler)
        installed.append(handler)
        if moment == "as it is handed on" and len(installed) == 2:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(container.subprocess, "Popen", Training)
    monkeypatch.setattr(container.signal, "signal", installing)
    try:
        assert container._run(["train"], {}) == (128 + signal.SIGTERM, True)
    finally:
        install(signal.SIGTERM, before)
    assert sent == [signal.SIGTERM]


@pytest.mark.slow
def test_a_container_trains_and_the_next_job_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SageMaker would run it, with an `/opt/ml` of the test's."""
    monkeypatch.chdir(REPOSITORY)
    job = {"orchestai_train": "deepcoder", "orchestai_config": "configs/agents/deepcoder.yaml"}
    words = {"model": "tiny", "training.phase2_rl.algorithm": "PPO", "sandbox.level": "process"}
    _root(tmp_path, job | words | {"training.phase2_rl.num_episodes": "2"})
    assert container.main(["--root", str(tmp_path)]) == 0
    first = (tmp_path / "checkpoints/phase2_metrics.jsonl").read_text().splitlines()
    _root(tmp_path, job | words | {"training.phase2_rl.num_episodes": "4"})
    assert container.main(["--root", str(tmp_path)]) == 0
    second = (tmp_path / "checkpoints/phase2_metrics.jsonl").read_text().splitlines()
    assert second[: len(first)] == first
    assert len(second) > len(first)
    assert any(path.name.startswith("phase2_best") for path in (tmp_path / "model").iterdir())


def _root(root: Path, hyperparameters: dict[str, str]) -> None:
    config = root / "input/config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hyperparameters.json").write_text(json.dumps(hyperparameters))
    hosts = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"}
    (config / "resourceconfig.json").write_text(json.dumps(hosts))
