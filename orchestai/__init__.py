"""OrchestAI: train a planner that turns an instruction into a workflow of real workers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestai.config.running import Contract
    from orchestai.orchestrator import Orchestrator, RunResult
    from orchestai.outcome import Outcome, Scored, Unscorable
    from orchestai.workflow import Subtask, Workflow, WorkflowError

__version__ = "0.1.0"

__all__ = [
    "Contract",
    "Orchestrator",
    "Outcome",
    "RunResult",
    "Scored",
    "Subtask",
    "Unscorable",
    "Workflow",
    "WorkflowError",
    "__version__",
]

_HOME = {
    "Contract": "orchestai.config.running",
    **dict.fromkeys(("Orchestrator", "RunResult"), "orchestai.orchestrator"),
    **dict.fromkeys(("Outcome", "Scored", "Unscorable"), "orchestai.outcome"),
    **dict.fromkeys(("Subtask", "Workflow", "WorkflowError"), "orchestai.workflow"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for, so that `orchestai --help` waits for no library."""
    if name not in _HOME:
        raise AttributeError(f"module 'orchestai' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
