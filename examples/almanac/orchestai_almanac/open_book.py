"""A language model with a search: it reads the page that fits a whole question best, and answers from it."""

from __future__ import annotations

from orchestai.config import WorkerConfig
from orchestai.workers.base import Request, Worker, WorkerCard, WorkerError, WorstCase
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.model_worker import ModelWorker
from orchestai.workers.prices import prices_of
from orchestai.workers.registry import BuildContext, WorkerKind
from orchestai_almanac.search import best_page


class OpenBook:
    """The strategy: the page, the question, and a request to be brief.

    It takes whole questions alone. Half a second per page is what a small model takes on a processor core, and a
    planner that explores asks each worker for thousands of steps.
    """

    stop = ("\n",)

    def prompt(self, request: Request) -> Prompt:
        """Raises `WorkerError` where a part of a question is asked."""
        if request.inputs or request.instruction != (request.task or request.instruction):
            raise WorkerError("whole questions are answered here, no parts of them")
        page = best_page(request.instruction, "text")
        return Prompt((("user", f"{page}\n\n{request.instruction} Answer in as few words as it takes."),))

    def answer(self, request: Request, reply: str) -> str:
        return reply.strip()


class OpenBookWorker(ModelWorker):
    """A model worker that refuses some requests, at no cost."""

    def worst_case(self, request: Request) -> WorstCase:
        try:
            return super().worst_case(request)
        except WorkerError:
            return WorstCase(0.0, 0, 0)


def _build(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    assert config.model is not None
    strategy = OpenBook()
    return OpenBookWorker(
        card,
        context.generators[config.model],
        strategy,
        SamplingParams(config.temperature, config.max_new_tokens, strategy.stop),
        samples=config.samples,
        prices=prices_of(config),
        sandbox=context.sandbox,
    )


KIND = WorkerKind(_build, asks_model=True)
