"""The `serving` section: where the server listens, what it offers, and how much it takes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestai.config.contract import Contract
from orchestai.config.section import Section

_MODEL = r"^[A-Za-z0-9._/-]+$"


class ServingConfig(Section):
    host: str = "127.0.0.1"
    """Where the server listens; the default is for programs on this machine alone."""
    require_keys: bool | None = None
    """Whether a request needs a key of `orchestai keys add`; null: where others than programs on this machine can send
    one. A key that is sent is checked, and pays, either way."""
    port: int = Field(8080, ge=0, le=65535)
    """0 takes a free one, which is said at the start."""
    model: str = Field("orchestai", pattern=_MODEL)
    """The name under which clients ask the planner that the server was started with."""
    checkpoints: dict[Annotated[str, Field(pattern=_MODEL)], str] = Field(default={})
    """Further planners by the names under which clients ask them: checkpoints, or folders of versions, which are
    followed."""
    profiles: dict[str, Contract] = Field(
        default={"cheap": Contract(prefer=0.0), "balanced": Contract(prefer=0.5), "best": Contract(prefer=1.0)}
    )
    """Contracts by name: `orchestai:cheap` is asked like a model of its own. Those with a preference or a least success
    are offered where the planner has an estimate of its workers."""
    deadline_s: float = Field(120.0, gt=0)
    """The deadline of requests whose contract sets none."""
    queue: int = Field(256, ge=0)
    """Runs that may wait while `execution.concurrency` are in work; more are told to come again."""
    planner_s: float = Field(10.0, gt=0)
    """Longest wait for a plan, and never more than half of the time that there is; then the best single worker is asked
    for the whole, and the reply says so (`degraded`)."""
    failures: int = Field(5, ge=1)
    """After so many failures in a row a worker, or the planner, is not asked for `rest_s`, and then once, to see."""
    rest_s: float = Field(10.0, gt=0)
    """Seconds."""
    parked_s: float = Field(3600.0, gt=0)
    """How long a workflow waits for what a client's tools give."""
    max_body_bytes: int = Field(4 * 2**20, ge=1024)
    """Longest request."""
    body_s: float = Field(20.0, gt=0)
    """Seconds in which a request must have come whole."""
    keep_alive_s: float = Field(10.0, gt=0)
    """A stream in which nothing else happened for so long gets a comment, so that nobody takes it for dead."""
    database: str = "sqlite:///served/orchestai.db"
    """What servers share: keys, money, served runs, feedback. `sqlite:///PATH` for those of one machine, or
    `postgresql+psycopg://USER:PASSWORD@HOST/NAME`, in which `${oc.env:NAME}` may stand for the password."""
    lease_s: float = Field(15.0, gt=0)
    """So many seconds after a server was killed, what its runs had reserved of their keys' money expires."""
    shadow: str | None = None
    """A checkpoint that plans what was answered, too: nobody waits for its plans, which are lines of
    `serving.shadow_log`."""
    shadow_log: Path = Path("served")
    """Folder of shadow.jsonl."""
    redact: str | None = None
    """`MODULE:FUNCTION` that is given every text of a run before it is kept, and gives what is kept in its place."""
    log_days: int | None = Field(None, ge=1)
    """The execution log's files that nobody has written to for so many days are removed, and so are runs that were
    served so long ago from the database, with what was said of them; null keeps all."""
    tracing: bool = False
    """Whether runs are sent as spans to OpenTelemetry (extra `otel`), where its own variables say, such as
    `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    log: Literal["none", "metadata", "full"] = "full"
    """What the execution log keeps of served runs; `metadata` leaves out every text."""

    @model_validator(mode="after")
    def _names_differ(self) -> ServingConfig:
        if self.model in self.checkpoints:
            raise ValueError(f"serving.checkpoints: {self.model!r} is serving.model already; take another name")
        return self
