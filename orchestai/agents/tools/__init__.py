"""Tools that roles call in words: search, Python, a calculator, and any function of a user's."""

from orchestai.agents.tools.search import Passage, Search, SearchIndex, open_index
from orchestai.agents.tools.tool import Calculator, CallFailedError, FunctionTool, Python, Tool
from orchestai.agents.tools.tool_loop import ToolCall, ToolResult, describe, find_calls, use_tools

__all__ = [
    "Calculator",
    "CallFailedError",
    "FunctionTool",
    "Passage",
    "Python",
    "Search",
    "SearchIndex",
    "Tool",
    "ToolCall",
    "ToolResult",
    "describe",
    "find_calls",
    "open_index",
    "use_tools",
]
