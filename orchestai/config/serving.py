"""The `serving` section: where the server listens, what it offers, and how much it takes on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestai.config.section import Section


class Contract(Section):
    """What holds for one answer; a limit that is null does not hold."""

    max_cost_usd: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    """US dollars that the answer may cost, in the worst case that its plan admits."""
    deadline_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds after which there is an answer, whole or partial; planning included."""
    max_calls: int | None = Field(None, ge=1)
    """Requests that may be sent to models and tools, samples and repeated tries included."""
    allow: tuple[str, ...] = ()
    """Workers that may be asked; empty allows the whole pool."""
    min_success: float | None = Field(None, ge=0, le=1)
    """The least probability that the answer is right; where no choice of workers reaches it, nobody is asked."""
    prefer: float | None = Field(None, ge=0, le=1)
    """From 0, the least price, to 1, the most success. null leaves the choice of workers to the planner."""
    hour_usd: float = Field(0.0, ge=0, allow_inf_nan=False)
    """US dollars that an hour of a worker's time is worth beside its price, where `prefer` or `min_success` choose."""
    on_deadline: Literal["partial", "error"] = "partial"
    """`partial`: the best answer so far is returned and marked as such. `error`: there is none."""

    def less(self, spent_usd: float) -> Contract:
        """The contract for what is left to do after so much was spent."""
        if self.max_cost_usd is None:
            return self
        return self.model_copy(update={"max_cost_usd": max(0.0, self.max_cost_usd - spent_usd)})


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
    max_body_bytes: int = Field(4 * 2**20, ge=1024)
    """Longest request."""
    failures: int = Field(5, ge=1)
    """After so many failures in a row a worker, or the planner, is not asked for ten seconds, and then once, to see."""
    database: str = "sqlite:///served/orchestai.db"
    """What servers share: keys, money, served runs, feedback. `sqlite:///PATH` for those of one machine, or
    `postgresql+psycopg://USER:PASSWORD@HOST/NAME`, in which `${oc.env:NAME}` may stand for the password."""
    lease_s: float = Field(15.0, gt=0)
    """So many seconds after a server was killed, what its runs had reserved of their keys' money expires."""
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
