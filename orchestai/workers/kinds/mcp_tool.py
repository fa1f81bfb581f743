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
    from mcp.types import Tool

_DEEPEST = 20
"""References within references that are followed."""


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
        self._types: Mapping[str, frozenset[str]] | None = None

    async def __call__(self, request: Request) -> str:
        arguments = self._arguments(request, await self._parameters())
        result = await self._server.call(self._name, arguments)
        text = "\n".join(part.text for part in result.content if part.type == "text")
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

    async def _parameters(self) -> Mapping[str, frozenset[str]]:
        """Types of the arguments by name."""
        if self._types is None:
            tools = await self._server.tools()
            if self._name not in tools:
                nearest = did_you_mean(self._name, tools)
                raise UserError(f"{self._server.where} has no tool {self._name!r}; it has {', '.join(tools)}{nearest}")
            self._types = self._checked(tools[self._name])
        return self._types

    def _checked(self, tool: Tool) -> Mapping[str, frozenset[str]]:
        properties, required = read_schema(tool.input_schema)
        missing = [name for name in required if name not in self._given]
        if self._given:
            unknown = [name for name in self._given if name not in properties] if properties else []
            if unknown or missing:
                wrong = f"has no argument {unknown[0]!r}" if unknown else f"needs the argument {missing[0]!r}"
                raise UserError(f"mcp.arguments: the tool {self._name!r} {wrong}; it takes {', '.join(properties)}")
            return properties
        if not properties:
            return {}
        texts = [name for name in (required or properties) if _takes_text(properties[name])]
        if len(texts) != 1 or len(required) > 1:
            raise UserError(
                f"the tool {self._name!r} takes {', '.join(properties)}, so say what each gets: "
                "mcp.arguments={NAME: '{{ instruction }}', ...}"
            )
        return {texts[0]: properties[texts[0]]}

    def _arguments(self, request: Request, types: Mapping[str, frozenset[str]]) -> dict[str, Any]:
        if not self._given:
            return dict.fromkeys(types, request.text)
        return {
            name: _typed(name, value.render(request), types.get(name, frozenset()))
            if isinstance(value, RequestTemplate)
            else value
            for name, value in self._given.items()
        }


def _takes_text(types: frozenset[str]) -> bool:
    return not types or "string" in types


def _typed(name: str, text: str, types: frozenset[str]) -> Any:
    """The value that a text writes, where a parameter wants no text."""
    if _takes_text(types) or "enum" in types:
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise WorkerError(
            f"argument {name!r} is to be of type {' or '.join(sorted(types))}, not {text[:80]!r}"
        ) from None


def read_schema(schema: Any) -> tuple[dict[str, frozenset[str]], list[str]]:
    """The types that each property of an object's schema may have (none: any; `enum`: one of given values), and the
    names of those that it must have, also of those that it does not describe."""
    whole = _resolved(schema, schema)
    described = whole.get("properties")
    properties = (
        {name: _types(about, schema) for name, about in described.items()} if isinstance(described, dict) else {}
    )
    listed = whole.get("required")
    required = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return properties | {name: frozenset() for name in required if name not in properties}, required


def _types(about: Any, root: Any) -> frozenset[str]:
    """What a value may be, but for null."""
    resolved = _resolved(about, root)
    said = resolved.get("type")
    types = {one for one in (said if isinstance(said, list) else [said]) if isinstance(one, str)}
    for choices in (resolved.get("anyOf"), resolved.get("oneOf")):
        types |= {one for choice in choices for one in _types(choice, root)} if isinstance(choices, list) else set()
    if "enum" in resolved or "const" in resolved:
        types = {"enum"}
    return frozenset(types - {"null"})


def _resolved(schema: Any, root: Any, depth: int = 0) -> dict[str, Any]:
    """A schema with what it refers to and all that it is made of; `true` and what is no schema say nothing."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    merged = dict(schema)
    parts = schema["allOf"] if isinstance(schema.get("allOf"), list) else []
    if isinstance(reference := schema.get("$ref"), str):
        parts = [*parts, _found(reference, root)]
    for part in parts:
        for key, value in _resolved(part, root, depth + 1).items():
            held = merged.get(key)
            if isinstance(held, dict) and isinstance(value, dict):
                merged[key] = {**held, **{name: one for name, one in value.items() if name not in held}}
            elif isinstance(held, list) and isinstance(value, list) and key == "required":
                merged[key] = [*held, *(one for one in value if one not in held)]
            else:
                merged.setdefault(key, value)
    return merged


def _found(reference: str, root: Any) -> Any:
    """What `#/a/b` points at within the whole schema; None where that is elsewhere, or nothing."""
    if not reference.startswith("#"):
        return None
    for step in filter(None, reference[1:].split("/")):
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root
