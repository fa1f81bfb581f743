"""Servers of MCP tools, and a tool as a worker: how a request becomes its arguments, and its result an answer."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from anyio import create_memory_object_stream, create_task_group

from orchestai.config import McpServerConfig, McpToolConfig
from orchestai.config.section import fill, secrets_of
from orchestai.errors import InfrastructureError, UserError
from orchestai.installed import needed_for
from orchestai.plugins import did_you_mean
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.prompting.template import RequestTemplate

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool


R = TypeVar("R")
_SHOWN = 300
"""Characters of a server's last words that are passed on."""


class McpServer:
    """Asks the tools of one server, over one session.

    A request that meets a dead server starts it again and is made once more; then it is a fault of infrastructure.

    Args:
        name: key in `workers.mcp_servers`.

    Raises:
        UserError: the package `mcp` is not installed.
    """

    def __init__(self, name: str, config: McpServerConfig) -> None:
        self.where = f"workers.mcp_servers.{name}"
        with needed_for(self.where):
            import mcp  # noqa: F401
        self._config = config
        self._session: _Session | None = None
        self._sessions: set[_Session] = set()

    async def tools(self) -> dict[str, Tool]:
        """The server's tools by name.

        Raises:
            InfrastructureError: it cannot be reached.
            UserError: a variable of the environment is missing.
        """

        async def listed(client: Client) -> list[Tool]:
            page = await client.list_tools()
            tools, seen = page.tools, set[str]()
            while page.next_cursor is not None and page.next_cursor not in seen:
                seen.add(page.next_cursor)
                page = await client.list_tools(cursor=page.next_cursor)
                tools += page.tools
            return tools

        try:
            tools = await asyncio.wait_for(self._ask(listed), self._config.timeout_s)
        except asyncio.TimeoutError:
            raise InfrastructureError("timeout", self._said("does not end its list of tools in time")) from None
        return {tool.name: tool for tool in tools}

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """What a tool gives, errors of its own included.

        Raises:
            InfrastructureError: the server is dead, or does not answer in time.
            WorkerError: the server does not take the arguments.
            UserError: a variable of the environment is missing.
        """
        return await self._ask(lambda client: client.call_tool(tool, arguments))

    async def close(self) -> None:
        """End the session, and with it the process of a server over stdio."""
        for session in self._sessions:
            session.closing.set()
        await asyncio.gather(*(session.host for session in self._sessions), return_exceptions=True)

    async def _ask(self, request: Callable[[Client], Awaitable[R]]) -> R:
        try:
            return await self._asked(self._open(), request)
        except _DeadServerError:
            pass
        try:
            return await self._asked(self._open(), request)
        except _DeadServerError as error:
            raise InfrastructureError("connection", self._said(f"the MCP server died; {error}")) from error

    async def _asked(self, session: _Session, request: Callable[[Client], Awaitable[R]]) -> R:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, INVALID_REQUEST, REQUEST_TIMEOUT

        try:
            client = await session.client()
        except UserError:
            raise
        except Exception as error:
            said = session.last_words() or str(_first(error)) or type(_first(error)).__name__
            reason = self._said(f"cannot start or reach the MCP server: {said}")
            raise InfrastructureError("connection", reason) from error
        asked = asyncio.ensure_future(request(client))
        try:
            await asyncio.wait({asked, session.host}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise session.dead()
            return asked.result()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise session.dead() from error
            if error.code in (INVALID_PARAMS, INVALID_REQUEST):
                raise WorkerError(self._said(str(error))) from error
            if error.code == REQUEST_TIMEOUT:
                raise InfrastructureError("timeout", self._said("no answer in time")) from error
            raise InfrastructureError("server", self._said(str(error))) from error
        except (RuntimeError, ValueError) as error:
            raise InfrastructureError("bad_response", self._said(f"its reply is none of MCP: {error}")) from error
        finally:
            asked.cancel()

    def _open(self) -> _Session:
        """The session, or a new one where there is none alive."""
        if self._session is None or self._session.ended:
            self._session = session = _Session(self._connect)
            self._sessions.add(session)
            session.host.add_done_callback(lambda _: self._sessions.discard(session))
        return self._session

    @asynccontextmanager
    async def _connect(self, errors: Any) -> AsyncIterator[Client]:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client

        config = self._config
        async with AsyncExitStack() as stack:
            if config.command:
                environment = fill({name: f"${name}" for name in config.env}, f"{self.where}.env")
                server = StdioServerParameters(command=config.command, args=list(config.args), env=environment)
                transport = stdio_client(server, errlog=errors)
            else:
                import httpx2

                assert config.url is not None
                headers = fill(config.headers, f"{self.where}.headers")
                http = httpx2.AsyncClient(headers=headers, timeout=config.timeout_s)
                transport = streamable_http_client(config.url, http_client=await stack.enter_async_context(http))
            yield await stack.enter_async_context(Client(_readable(transport), read_timeout_seconds=config.timeout_s))

    def _said(self, words: str) -> str:
        for secret in secrets_of(self._config.headers):
            words = words.replace(secret, "...")
        return f"{self.where}: {words}"


@asynccontextmanager
async def _readable(transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    """A transport whose results are as the SDK wants them, which refuses a whole list or result for one odd field."""

    async def pump() -> None:
        async with incoming, sent:
            async for message in incoming:
                if isinstance(result := getattr(getattr(message, "message", None), "result", None), dict):
                    readable_result(result)
                await sent.send(message)

    async with transport as (incoming, outgoing), create_task_group() as group:
        sent, received = create_memory_object_stream[Any](0)
        group.start_soon(pump)
        yield received, outgoing
        group.cancel_scope.cancel()


def readable_result(result: dict[str, Any]) -> None:
    """Leave of a list of tools what is read of those that take an object, and make of what a tool gave its texts."""
    if isinstance(listed := result.get("tools"), list):
        tools = [(one.get("name"), _object(one.get("inputSchema"))) for one in listed if isinstance(one, dict)]
        described = [{"name": name, "inputSchema": about} for name, about in tools if about["type"] == "object"]
        result["tools"] = [one for one in described if isinstance(one["name"], str)]
    elif not {"content", "structuredContent"}.isdisjoint(result):
        parts = result.get("content")
        texts = [_text(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        structured = result.pop("structuredContent", None)
        if not any(texts) and structured is not None:
            texts = [json.dumps(structured, ensure_ascii=False)]
        result["content"] = [{"type": "text", "text": text} for text in texts if text]


def _object(schema: Any) -> dict[str, Any]:
    """A schema without what is none of its parts; one that does not say is that of an object."""
    kinds = {"type": str, "properties": dict, "required": list, "$defs": dict}
    given = schema.items() if isinstance(schema, dict) else ()
    return {"type": "object", **{key: one for key, one in given if isinstance(one, kinds.get(key, object))}}


def _text(part: dict[str, Any]) -> str:
    """What a part of a result says: a text, a resource's, or where one is."""
    within = part["resource"] if isinstance(part.get("resource"), dict) else part
    said = within.get("uri") if part.get("type") == "resource_link" else within.get("text")
    return said if isinstance(said, str) else ""


class _DeadServerError(Exception):
    pass


class _Session:
    """Holds a connection in a task of its own: what opens one must close it, and those who ask come and go.

    Attributes:
        host: ends with the connection.
        closing: asks the host to close it.
    """

    def __init__(self, connect: Callable[[Any], AbstractAsyncContextManager[Client]]) -> None:
        self.closing = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._errors = tempfile.TemporaryFile("a+", errors="replace")  # noqa: SIM115
        self._last_words = ""
        self.host = asyncio.create_task(self._hold(connect))

    @property
    def ended(self) -> bool:
        return self.host.done() or self.closing.is_set()

    async def client(self) -> Client:
        """The open client; several may wait for it."""
        return await asyncio.shield(self._opened)

    def last_words(self) -> str:
        """The last line that a server over stdio wrote to its standard error."""
        if not self._errors.closed:
            self._errors.seek(0)
            lines = (line.strip() for line in reversed(self._errors.read().split("\n")))
            self._last_words = next((line[:_SHOWN] for line in lines if line), "")
        return self._last_words

    def dead(self) -> _DeadServerError:
        """What to raise where the connection is lost, which another session takes the place of."""
        self.closing.set()
        words = self.last_words()
        return _DeadServerError(f"its last words: {words}" if words else "it said nothing")

    async def _hold(self, connect: Callable[[Any], AbstractAsyncContextManager[Client]]) -> None:
        try:
            async with connect(self._errors) as client:
                self._opened.set_result(client)
                await self.closing.wait()
        except BaseException as error:
            if self._opened.done():
                return  # those who wait for an answer are told by the end of this task
            self._opened.set_exception(_first(error))
            self._opened.exception()  # taken note of: those who asked may all have left
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self.last_words()
            self._errors.close()


def _first(error: BaseException) -> BaseException:
    """The cause in groups of errors."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


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
        types = await self._parameters()
        arguments: dict[str, Any] = dict.fromkeys(() if self._given else types, request.text)
        for name, value in self._given.items():
            arguments[name] = text = value.render(request) if isinstance(value, RequestTemplate) else value
            kinds = types.get(name, frozenset())
            if isinstance(value, RequestTemplate) and kinds and not kinds & {"string", "enum"}:
                try:
                    arguments[name] = json.loads(text)
                except ValueError:
                    kind = " or ".join(sorted(kinds))
                    raise WorkerError(f"argument {name!r} is to be of type {kind}, not {text[:80]!r}") from None
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
        texts = [name for name in (required or properties) if not properties[name] or "string" in properties[name]]
        if len(texts) != 1 or len(required) > 1:
            raise UserError(
                f"the tool {self._name!r} takes {', '.join(properties)}, so say what each gets: "
                "mcp.arguments={NAME: '{{ instruction }}', ...}"
            )
        return {texts[0]: properties[texts[0]]}


def read_schema(schema: Any) -> tuple[dict[str, frozenset[str]], list[str]]:
    """The types that each property of an object's schema may have (none: any; `enum`: one of given values), and the
    names of those that it must have, also of those that it does not describe."""
    properties: dict[str, frozenset[str]] = {}
    required: dict[str, frozenset[str]] = {}
    for part in _parts(schema, schema, set()):
        described, listed = part.get("properties"), part.get("required")
        for name, about in described.items() if isinstance(described, dict) else ():
            properties.setdefault(name, _types(about, schema, set()))
        required |= {name: frozenset() for name in listed if isinstance(name, str)} if isinstance(listed, list) else {}
    return properties | {name: types for name, types in required.items() if name not in properties}, list(required)


def _types(about: Any, root: Any, followed: set[str]) -> frozenset[str]:
    """What a value may be, but for null."""
    types: set[str] = set()
    for part in _parts(about, root, followed):
        if not {"enum", "const"}.isdisjoint(part):
            return frozenset({"enum"})
        said = part.get("type")
        types |= {one for one in (said if isinstance(said, list) else [said]) if isinstance(one, str)}
        for choices in (part.get("anyOf"), part.get("oneOf")):
            for choice in choices if isinstance(choices, list) else ():
                types |= _types(choice, root, followed)
    return frozenset(types - {"null"})


def _parts(schema: Any, root: Any, followed: set[str]) -> Iterator[dict[str, Any]]:
    """A schema, what it refers to, and all that it is made of; `true` and what is no schema say nothing.

    Args:
        followed: references that were followed before, each of which is followed once.
    """
    if not isinstance(schema, dict):
        return
    yield schema
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        yield from _parts(part, root, followed)
    if isinstance(reference := schema.get("$ref"), str) and reference not in followed:
        followed.add(reference)
        yield from _parts(_found(reference, root), root, followed)


def _found(reference: str, root: Any) -> Any:
    """What `#/a/b` points at within the whole schema; None where that is elsewhere, or nothing."""
    root = {"#": root}
    for step in filter(None, unquote(reference).split("/")):
        root = {str(place): one for place, one in enumerate(root)} if isinstance(root, list) else root
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root
