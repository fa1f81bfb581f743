"""A job as `orchestai launch sagemaker` asks for it."""

from orchestai.launch.sagemaker import Job

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
HYPERPARAMETERS = JOB.request("0")["HyperParameters"]
