"""HTTP to a server of models: what is sent as it is, what comes whole or piece by piece, and faults by their kinds."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi

from orchestai.errors import InfrastructureError, UserError
from orchestai.workers.api_faults import PassingError, fault_of_status, retry_after
from orchestai.workers.base import WorkerError

_KEEP_IDLE_S = 4.0
"""Shorter than servers keep a line that nobody uses, so that none is closed as it is used again."""


@dataclass(frozen=True)
class HttpReply:
    """A reply of a URL; `location` is where it redirects to, if it does."""

    url: str
    status: int
    location: str | None
    body: bytes


class HttpClient:
    """Keeps its lines open between requests, as many as there are at a time; for one event loop.

    OpenAI's own client takes seven times as much CPU time for a request (docs/workers.md), most of it to look at what
    is asked.

    Args:
        url: under which the server's paths are; its query, if it has one, goes with every request.
        key: goes as a bearer's token; empty sends none.
        timeout_s: of silence.
    """

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": "orchestai"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, headers: Mapping[str, str], timeout_s: float) -> bytes:
        """The body of a reply that must come within a time; raises as `post`."""
        limit = aiohttp.ClientTimeout(total=timeout_s)
        with _faults():
            async with self._opened().get(joined(self._url, path), headers=headers, timeout=limit) as reply:
                return await _body(reply)

    async def probe(self, url: str, data: bytes | None = None) -> HttpReply:
        """The reply of a URL of this server to a GET, or to a POST of JSON, be it an error or a redirect.

        Raises:
            InfrastructureError: there is none.
        """
        method, headers = ("GET", {}) if data is None else ("POST", {"Content-Type": "application/json"})
        with _faults():
            async with self._opened().request(method, url, data=data, headers=headers, allow_redirects=False) as reply:
                moved = urljoin(url, reply.headers["Location"]) if "Location" in reply.headers else None
                return HttpReply(url, reply.status, moved, await reply.read())

    async def post(self, path: str, data: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the reply to JSON.

        Raises:
            PassingError: the line or the server fails; another try may help.
            InfrastructureError, WorkerError: it refuses (see `fault_of_status`), or its certificate is not trusted.
            UserError: the environment names a proxy that is none.
        """
        with _faults():
            async with self._posted(path, data, headers) as reply:
                return await _body(reply)

    @asynccontextmanager
    async def events(self, path: str, data: bytes, headers: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The data of server-sent events, as they come, in reply to JSON; raises as `post`, also while it is read."""
        with _faults():
            async with self._posted(path, data, headers) as reply:
                if reply.status >= 400:
                    await _body(reply)
                yield _server_sent(reply.content.iter_any())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _posted(self, path: str, data: bytes, headers: Mapping[str, str]) -> Any:
        sent = {"Content-Type": "application/json", **headers}
        return self._opened().post(joined(self._url, path), data=data, headers=sent)

    def _opened(self) -> aiohttp.ClientSession:
        """The session, which is of the loop that it is opened in."""
        if self._session is None:
            silence = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=self._timeout_s)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_S, ssl=_trusted(self._url)),
                headers=self._headers,
                timeout=silence,
                cookie_jar=aiohttp.DummyCookieJar(),
                proxy=_proxy(self._url),
            )
        return self._session


def joined(url: str, path: str) -> str:
    """The URL of a path below another URL, with that one's query."""
    before, mark, query = url.partition("?")
    return before.rstrip("/") + path + mark + query


@contextmanager
def _faults() -> Iterator[None]:
    """Faults of the line by their kinds."""
    try:
        yield
    except (asyncio.TimeoutError, TimeoutError):
        raise PassingError("timeout", "no answer in time") from None
    except aiohttp.ClientConnectorCertificateError as error:
        said = getattr(error.certificate_error, "verify_message", error.certificate_error)
        remedy = "if it is yours, name the file of the certificate that signed it in the variable SSL_CERT_FILE"
        raise InfrastructureError("connection", f"its certificate is not trusted ({said}); {remedy}") from None
    except aiohttp.ClientConnectorSSLError as error:
        said = getattr(error.os_error, "reason", error.os_error)
        raise InfrastructureError("connection", f"no TLS with it ({said}); is it http:// that it speaks?") from None
    except (aiohttp.ClientError, OSError):
        raise PassingError("connection", "connection refused or lost") from None


async def _body(reply: aiohttp.ClientResponse) -> bytes:
    data = await reply.read()
    if reply.status >= 400:
        raise _refusal(reply, data)
    return data


def _refusal(reply: aiohttp.ClientResponse, data: bytes) -> InfrastructureError | WorkerError:
    """What an error reply is; a page of a proxy in between, for one, describes none."""
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    error = said.get("error", said) if isinstance(said, Mapping) else said
    readable = isinstance(error, Mapping)
    body = error if readable else {"message": data.decode(errors="replace")}
    return fault_of_status(reply.status, body, retry_after(reply.headers), readable=readable)


async def _server_sent(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event; an event ends with an empty line."""
    held: bytes = b""
    data: list[bytes] = []
    with _faults():
        async for piece in pieces:
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    data.append(line.removeprefix(b"data:").strip())
                elif not line and data:
                    yield b"\n".join(data)
                    data = []


def _trusted(url: str) -> ssl.SSLContext | bool:
    """What vouches for a server: the system's authorities, or those that variables name, and Mozilla's."""
    if urlsplit(url).scheme != "https":
        return True
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    return context


def _proxy(url: str) -> str | None:
    """Through which the environment wants a server to be asked.

    Raises:
        UserError: it is no proxy for HTTP.
    """
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    name = parts.scheme if parts.scheme in proxies else "all"
    proxy = proxies.get(name)
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if (scheme := urlsplit(proxy).scheme) not in ("http", "https"):
        raise UserError(
            f"the variable {name.upper()}_PROXY: {scheme} is not supported; give a proxy for HTTP, or leave "
            f"{parts.hostname} out with NO_PROXY"
        )
    return proxy
