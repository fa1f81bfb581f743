"""A tool of an MCP server as a worker: how a request becomes its arguments, and its result an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestai.config import McpToolConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.names import did_you_mean
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.kinds.mcp_server import McpServer
from orchestai.workers.prompting.template import RequestTemplate

if TYPE_CHECKING:
    from mcp.types import CallToolResult, Tool


class McpTool:
    """Calls one tool with arguments made of the request.

    Without `mcp.arguments`, a tool's only text gets the instruction with the parents' texts. Otherwise a text in them
    is a template over the request (see `RequestTemplate`), of which a parameter that wants no text gets the JSON value.

    Raises:
        UserError: an argument is no template.
    """

    def __init__(self, server: McpServer, config: McpToolConfig) -> None:
        self._server = server
        self._name = config.tool
        self._given = {
            key: RequestTemplate(value, f"mcp.arguments.{key}") if isinstance(value, str) else value
            for key, value in config.arguments.items()
        }
        self._types: Mapping[str, str] | None = None

    async def __call__(self, request: Request) -> str:
        arguments = self._arguments(request, await self._parameters())
        result = await self._server.call(self._name, arguments)
        text = _text(result)
        if result.is_error:
            raise WorkerError(f"{self._name}: {text}")
        if not text:
            raise WorkerError(f"{self._name} gave no text")
        return text

    async def check(self) -> None:
        """Raise `UserError` if the server cannot be had, or the tool not with these arguments."""
        try:
            await self._parameters()
        except InfrastructureError as error:
            raise UserError(str(error)) from error

    async def close(self) -> None:
        await self._server.close()

    async def _parameters(self) -> Mapping[str, str]:
        """Types of the arguments by name."""
        if self._types is None:
            tools = await self._server.tools()
            if self._name not in tools:
                nearest = did_you_mean(self._name, tools)
                raise UserError(f"{self._server.where} has no tool {self._name!r}; it has {', '.join(tools)}{nearest}")
            self._types = self._checked(tools[self._name])
        return self._types

    def _checked(self, tool: Tool) -> Mapping[str, str]:
        schema = tool.input_schema
        types = {name: about.get("type", "") for name, about in schema.get("properties", {}).items()}
        required = schema.get("required", [])
        missing = [name for name in required if name not in self._given]
        if self._given:
            unknown = [name for name in self._given if name not in types] if types else []
            if unknown or missing:
                wrong = f"has no argument {unknown[0]!r}" if unknown else f"needs the argument {missing[0]!r}"
                raise UserError(f"mcp.arguments: the tool {self._name!r} {wrong}; it takes {', '.join(types)}")
            return types
        texts = [name for name in (required or types) if types[name] == "string"]
        if len(texts) != 1 or len(required) > 1:
            raise UserError(
                f"the tool {self._name!r} takes {', '.join(types) or 'nothing'}, so say what each gets: "
                "mcp.arguments={NAME: '{{ instruction }}', ...}"
            )
        return {texts[0]: "string"}

    def _arguments(self, request: Request, types: Mapping[str, str]) -> dict[str, Any]:
        if not self._given:
            return dict.fromkeys(types, request.text)
        return {
            name: _typed(name, value.render(request), types.get(name, ""))
            if isinstance(value, RequestTemplate)
            else value
            for name, value in self._given.items()
        }


def _typed(name: str, text: str, wanted: str) -> Any:
    """The value that a text writes, where a parameter wants no text."""
    if wanted in ("string", ""):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise WorkerError(f"argument {name!r} is to be of type {wanted}, not {text[:80]!r}") from None


def _text(result: CallToolResult) -> str:
    texts = [part.text for part in result.content if part.type == "text"]
    if not texts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(texts)
