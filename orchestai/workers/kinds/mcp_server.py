"""A session with an MCP server: opened when it is first needed, and again when the server died."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import create_memory_object_stream, create_task_group

from orchestai.config import McpServerConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.extras import needed_for
from orchestai.workers.base import WorkerError
from orchestai.workers.environment import fill, secrets_of

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
            while page.next_cursor and page.next_cursor not in seen:
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
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT

        client = await self._opened(session)
        asked = asyncio.ensure_future(request(client))
        try:
            await asyncio.wait({asked, session.host}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise session.dead()
            return asked.result()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise session.dead() from error
            if error.code == INVALID_PARAMS:
                raise WorkerError(self._said(str(error))) from error
            if error.code == REQUEST_TIMEOUT:
                raise InfrastructureError("timeout", self._said("no answer in time")) from error
            raise InfrastructureError("server", self._said(str(error))) from error
        except (RuntimeError, ValueError) as error:
            raise InfrastructureError("bad_response", self._said(f"its reply is none of MCP: {error}")) from error
        finally:
            asked.cancel()

    async def _opened(self, session: _Session) -> Client:
        try:
            return await session.client()
        except UserError:
            raise
        except Exception as error:
            said = session.last_words() or str(_first(error)) or type(_first(error)).__name__
            raise InfrastructureError(
                "connection", self._said(f"cannot start or reach the MCP server: {said}")
            ) from error

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
