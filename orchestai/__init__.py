"""OrchestAI: train a planner that turns an instruction into a workflow of real workers."""

from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.workflow import Subtask, Workflow, WorkflowError

__version__ = "0.1.0"

__all__ = ["Outcome", "Scored", "Subtask", "Unscorable", "Workflow", "WorkflowError", "__version__"]
