"""The workers of a configuration: built, limited, paid for and closed in one place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestai.admission import Admission, heeding_cancellation
from orchestai.config import CACHE_DIR, ModelConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.base import (
    Answer,
    Request,
    SpeakingWorker,
    Usage,
    Worker,
    WorkerCard,
    WorkerError,
    WorstCase,
)
from orchestai.workers.circuit_breaker import CircuitBreaker
from orchestai.workers.generation import Cached, Generator
from orchestai.workers.recording import RecordingFile, read_recordings
from orchestai.workers.registry import BuildContext, Resource, make_card, make_worker
from orchestai.workers.tools.registry import Tool, ToolWorker


class WorkerPool:
    """An async context manager; leaving it cancels what is in flight and frees the models and the servers.

    Attributes:
        usage: what each worker was asked and paid so far.
        breakers: by worker; one without is always asked.
    """

    def __init__(
        self,
        workers: Mapping[str, Worker],
        concurrency: Mapping[str, int],
        generators: Mapping[str, Generator],
        resources: Sequence[Resource] = (),
    ) -> None:
        self._workers = workers
        self._admission = {name: Admission(concurrency[name]) for name in workers}
        self._generators = generators
        self._resources = (*resources, *generators.values())
        self.usage = {name: Usage() for name in workers}
        self.breakers: dict[str, CircuitBreaker] = {}

    @classmethod
    def from_config(
        cls,
        config: WorkersConfig,
        sandbox: Sandbox,
        *,
        live: bool | None = None,
        record: Path | str | None = None,
        bare: Collection[str] = (),
    ) -> WorkerPool:
        """Build all workers; models are loaded when they are first asked.

        Args:
            live: True ignores the recordings, False never runs a model; None does as `config` says.
            record: a JSONL file to which every generation used is appended.
            bare: names of models that are asked without a worker, too (see `generator`); others are passed over.

        Raises:
            UserError: a recording cannot be read, or what a worker's configuration names is not there.
        """
        recorded = {} if live else read_recordings(config.recordings)
        may_run = config.on_miss == "live" if live is None else live
        file = RecordingFile(record) if record else None
        asked = {*(worker.model for worker in config.pool.values()), config.planner_model, *bare}
        folder = config.cache_dir / "generations" if config.cache_dir else None

        def opened(name: str, model: ModelConfig) -> Generator:
            if model.kind == "openai_api":
                from orchestai.workers.openai_api import OpenAIGenerator

                return OpenAIGenerator(model)
            from orchestai.workers.huggingface import HuggingFaceGenerator

            return HuggingFaceGenerator(model, config.cache_dir or CACHE_DIR, f"workers.models.{name}")

        generators = {
            name: Cached(opened(name, model), folder, recorded, file, may_run=may_run)
            for name, model in config.models.items()
            if name in asked
        }
        context = BuildContext(config, sandbox, generators)
        workers = {name: make_worker(name, worker, context) for name, worker in config.pool.items()}
        concurrency = {name: worker.concurrency for name, worker in config.pool.items()}
        return cls(workers, concurrency, generators, context.resources)

    @property
    def names(self) -> list[str]:
        return list(self._workers)

    @property
    def cards(self) -> list[WorkerCard]:
        return [worker.card for worker in self._workers.values()]

    def tool(self, name: str) -> Tool:
        """What a worker of kind `tool` calls, for whoever asks it without its worker."""
        worker = self._workers[name]
        assert isinstance(worker, ToolWorker)
        return worker.tool

    def generator(self, model: str) -> Generator:
        """The model under this key of `workers.models`, for whoever needs it bare (the `llm` planner)."""
        return self._generators[model]

    async def check(self) -> None:
        """Raise `UserError`, in one line, if a model or a server that may be needed cannot be had."""
        for resource in self._resources:
            await resource.check()

    async def problems(self) -> list[str]:
        """What `check` would say, of all models and servers."""
        said = []
        for resource in self._resources:
            try:
                await resource.check()
            except UserError as error:
                said.append(str(error))
        return said

    async def answer(self, name: str, request: Request) -> Answer:
        """Ask one worker; raises as `Worker.answer` does. Cancelled, it gives its place back, even by a deaf worker."""
        return await self._answered(name, partial(self._workers[name].answer, request))

    async def speak(self, name: str, request: Request, hear: Callable[[str], None]) -> Answer:
        """The same; `hear` is told the text while it is written, where the worker lets it be heard."""
        worker = self._workers[name]
        if not isinstance(worker, SpeakingWorker):
            return await self.answer(name, request)
        return await self._answered(name, partial(worker.speak, request, hear))

    @property
    def out_of_order(self) -> list[str]:
        """Workers that are not asked now."""
        return [name for name, breaker in self.breakers.items() if breaker.is_open]

    async def _answered(self, name: str, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        breaker, ended = self.breakers.get(name), None
        if breaker is not None:
            breaker.enter(name)
        try:
            async with self._admission[name]:
                answer = await heeding_cancellation(ask())
            self.usage[name] = self.usage[name].plus(answer.usage)
            return answer
        except BaseException as error:
            ended = error
            if isinstance(error, WorkerError):
                self.usage[name] = self.usage[name].plus(error.usage)
            raise
        finally:
            if breaker is not None:
                breaker.heard(ended)

    def worst_case(self, name: str, request: Request) -> WorstCase:
        """What one worker may cost at most for this request."""
        return self._workers[name].worst_case(request)

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for resource in self._resources:
            await resource.close()


def worker_cards(config: WorkersConfig) -> list[WorkerCard]:
    """How planners see the configured workers, without building them; raises `UserError` for an unknown kind."""
    return [make_card(name, worker) for name, worker in config.pool.items()]
