"""Workers that are not models: each applies to some requests and says so where it does not."""

from orchestai.workers.tools.registry import make_tool
from orchestai.workers.tools.worker import ToolWorker

__all__ = ["ToolWorker", "make_tool"]
