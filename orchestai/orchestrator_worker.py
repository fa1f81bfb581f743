"""Another orchestrator as a worker: it plans a subtask, and runs the plan on a pool of its own."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace

from orchestai.config import Contract, NestedConfig, WorkerConfig, load_config
from orchestai.errors import InfrastructureError, UserError
from orchestai.orchestrator import Orchestrator
from orchestai.tasks.asked_task import AnswerKind
from orchestai.tasks.program_source import named
from orchestai.workers.base import Answer, Request, Signature, Usage, Worker, WorkerCard, WorkerError, WorstCase
from orchestai.workers.prompting.prompts import Chat
from orchestai.workers.registry import BuildContext

_ENTRY_POINT = "task_func"
"""What a program is called that answers an instruction."""
_MAX_DEPTH = 2
"""How many orchestrators may ask each other in a row."""
_depth: ContextVar[int] = ContextVar("depth of orchestrators that ask orchestrators", default=0)


class OrchestratorWorker:
    """Answers a request by a run, under a contract that the request's worst case is made of.

    So a run of a run is paid for out of what is left of the contract around it. The orchestrator is opened when it is
    first asked, since a configuration may name itself; `_MAX_DEPTH` ends that.

    Args:
        contract: of each run.
    """

    def __init__(self, card: WorkerCard, nested: NestedConfig, orchestrator: Orchestrator, contract: Contract) -> None:
        self.card = card
        self._contract = contract
        self._orchestrator = orchestrator
        self._opening = asyncio.Lock()
        self._is_open = False

    def worst_case(self, request: Request) -> WorstCase:
        return WorstCase(cost_usd=self._contract.max_cost_usd or 0.0, calls=self._contract.max_calls or 1)

    async def answer(self, request: Request) -> Answer:
        depth = _depth.get()
        if depth >= _MAX_DEPTH:
            raise WorkerError(f"{depth} orchestrators have asked each other in a row, which is as many as may")
        token = _depth.set(depth + 1)
        try:
            async with self._opening:
                if not self._is_open:
                    await self._orchestrator.__aenter__()
                    self._is_open = True
            signature = request.signature and Signature(_ENTRY_POINT, request.signature.parameters)
            words = Chat().prompt(replace(request, role="", signature=signature)).messages[-1][1]
            instruction = f"{request.role}\n\n{words}" if request.role else words
            kind: AnswerKind = "text" if request.signature is None else "program"
            try:
                result = await self._orchestrator.run(instruction, self._contract, answer=kind)
            except UserError as error:  # of this instruction: there is no plan, or none that keeps the contract
                raise WorkerError(str(error)) from error
        finally:
            _depth.reset(token)
        attempts = [attempt for node in result.execution.results for attempt in node.attempts]
        usage = Usage(
            requests=1,
            prompt_tokens=sum(attempt.prompt_tokens for attempt in attempts),
            completion_tokens=sum(attempt.completion_tokens for attempt in attempts),
            cost_usd=result.receipt.spent_usd,
            latency_ms=result.receipt.wall_ms,
            estimated=any(attempt.usage_estimated for attempt in attempts),
        )
        if result.execution.fault is not None:
            raise InfrastructureError(result.execution.fault.kind, result.execution.fault.reason)
        if result.receipt.status != "complete" or not result.answer:
            raise WorkerError(result.execution.error or "there is no answer", usage)
        return Answer(
            text=named(result.answer, request.signature.name) if request.signature else result.answer,
            prompt=instruction,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            latency_ms=usage.latency_ms,
            usage_estimated=usage.estimated,
        )

    async def check(self) -> None:
        """Leave what it needs to its first run: it may be this very configuration."""

    async def close(self) -> None:
        async with self._opening:
            if self._is_open:
                self._is_open = False
                await self._orchestrator.__aexit__(None, None, None)


def build_orchestrator(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    """An orchestrator with a checkpoint and a configuration of its own."""
    nested = config.orchestrator
    assert nested is not None
    orchestrator = Orchestrator.open(nested.checkpoint, load_config(nested.config), log=None)
    contract = Contract(max_cost_usd=config.price_per_call_usd, max_calls=nested.max_calls)
    worker = OrchestratorWorker(card, nested, orchestrator, contract)
    context.resources.append(worker)
    return worker
