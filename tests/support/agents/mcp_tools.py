"""A real MCP server for tests: over standard input and output, or over HTTP where a port is given."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests", log_level="ERROR")
calls = 0


@server.tool()
def shout(text: str) -> str:
    """Write it in capitals."""
    return text.upper()


@server.tool()
def repeat(text: str, times: int, mark: str = "") -> str:
    """Write it several times."""
    return (text + mark) * times


@server.tool()
def refuse(text: str) -> str:
    """Refuse."""
    raise ToolError("no such customer")


@server.tool()
def count(text: str) -> str:
    """Say how many calls this process has had."""
    global calls
    calls += 1
    return str(calls)


@server.tool()
def die(text: str) -> str:
    """End the process in the midst of the call."""
    print("out of disk", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def variable(name: str) -> str:
    """The environment's variable."""
    return os.environ.get(name, "absent")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
