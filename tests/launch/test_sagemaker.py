"""What is asked of SageMaker, field by field, and what is refused before it costs anything."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.errors import UserError
from orchestai.launch import sagemaker as bundle
from orchestai.launch.sagemaker import Job, digest_of, submit
from support.repository import REPOSITORY
from support.sagemaker_job import JOB, ROLE


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


TO_SERVICE = ["--role", ROLE, "--image", "i", "--output", "s3://b/x", "--dry_run"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "configs/agents/deepcoder.yaml", "tasks.limt=2"], "tasks.limt"),
        (["--config", "configs/agents/deepcoder.yaml", "--layout", "zero9"], "--layout zero9: there are ddp, "),
        (["--config", "config.yaml"], "begins with a checkpoint of phase 1"),
        (
            ["--config", "config.yaml", "--checkpoint", "s3://b/c", "--data", "s3://b/d"],
            "--data: phase2 learns from tasks",
        ),
        (["--config", "config.yaml", "--checkpoint", "s3://b/c", "tasks.path=no/tasks.jsonl"], "tasks.jsonl: no such"),
        (
            ["--config", "configs/agents/deepcoder.yaml", "model.backend=vllm"],
            "does not install vllm; .*SKIP_INSTALL=1",
        ),
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
