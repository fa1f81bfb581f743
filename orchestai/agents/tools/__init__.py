"""Tools that roles call in words: search, Python, a calculator, and any function of a user's."""

from orchestai.agents.tools.calls import ToolCall, describe, find_calls
from orchestai.agents.tools.loop import ToolResult, use_tools
from orchestai.agents.tools.tool import FunctionTool, Tool

__all__ = ["FunctionTool", "Tool", "ToolCall", "ToolResult", "describe", "find_calls", "use_tools"]
