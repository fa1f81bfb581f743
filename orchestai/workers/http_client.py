"""HTTP to a server of models: what is sent as it is, what comes whole or piece by piece, and faults by their kinds."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from anyio import fail_after

from orchestai.errors import FaultKind, InfrastructureError, UserError
from orchestai.workers.api_faults import PassingError, fault_of_status, retry_after
from orchestai.workers.base import WorkerError

_KEEP_IDLE_S = 4.0
"""Shorter than servers keep a line that nobody uses, so that none is closed as it is used again."""
_LONGEST_HEADER, _MOST_HEADERS = 100_000, 2_000
"""What OpenAI's client reads; gateways send policies and cookies of many kilobytes."""
_MOST_REDIRECTS = 10
_SHOWN = 100
_NOT_HTTP = "its reply is not HTTP as it should be"


class _Incoming(NamedTuple):
    """A reply that has begun."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


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
    is asked, so it only asks servers whose replies aiohttp's parser refuses.

    Args:
        url: under which the server's paths are; its query, if it has one, goes with every request.
        key: goes as a bearer's token; empty sends none.
        timeout_s: of a whole request.
    """

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": "orchestai"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None
        self._patient: Any = None

    async def ask(self, path: str, data: bytes | None, headers: Mapping[str, str], timeout_s: float) -> bytes:
        """The whole reply to a GET, or to a POST of JSON, which must come within a time; raises as `posted`."""
        with _faults(), fail_after(timeout_s):
            async with self._asked(joined(self._url, path), data, headers) as reply:
                return b"".join([piece async for piece in reply.pieces])

    async def probe(self, url: str, data: bytes | None = None) -> HttpReply:
        """The reply of a URL of this server to a GET, or to a POST of JSON, be it an error or a redirect.

        Raises:
            InfrastructureError: there is none.
        """
        with _faults():
            async with self._sent(url, data, {}) as reply:
                moved = _target(url, reply.headers["Location"]) if "Location" in reply.headers else None
                return HttpReply(url, reply.status, moved, b"".join([piece async for piece in reply.pieces]))

    @asynccontextmanager
    async def posted(self, path: str, data: bytes, headers: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of the reply to JSON, as it comes.

        Raises, also while it is read:
            PassingError: the line or the server fails, or it takes longer than it may; another try may help.
            InfrastructureError, WorkerError: it refuses (see `fault_of_status`), or its certificate is not trusted.
            UserError: the environment names a proxy that is none.
        """
        with _faults(), fail_after(self._timeout_s):
            async with self._asked(joined(self._url, path), data, headers) as reply:
                yield reply.pieces

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._patient is not None:
            await self._patient.aclose()

    @asynccontextmanager
    async def _asked(self, url: str, data: bytes | None, headers: Mapping[str, str]) -> AsyncIterator[_Incoming]:
        """The reply at the end of redirects, which keep the method, unless it is a refusal; keys stay with a server."""
        for _ in range(_MOST_REDIRECTS):
            async with self._sent(url, data, headers) as reply:
                if reply.status not in (301, 302, 303, 307, 308) or "Location" not in reply.headers:
                    if reply.status >= 300:
                        said = b"".join([piece async for piece in reply.pieces])
                        raise _refusal(reply.status, reply.headers, said, data or b"")
                    yield reply
                    return
                moved = _target(url, reply.headers["Location"])
                if reply.status == 303:
                    data = None
            if not _is_same_server(url, moved):
                headers = {"Authorization": ""}
            url = moved
        raise InfrastructureError("bad_request", f"it redirects {_MOST_REDIRECTS} times, the last time to {url}")

    @asynccontextmanager
    async def _sent(self, url: str, data: bytes | None, headers: Mapping[str, str]) -> AsyncIterator[_Incoming]:
        """One reply to a GET, or to a POST of JSON, by aiohttp; by OpenAI's own client from the first on that aiohttp's
        parser does not read."""
        method, kind = ("GET", {}) if data is None else ("POST", {"Content-Type": "application/json"})
        sent = {name: value for name, value in {**self._headers, **kind, **headers}.items() if value}
        if self._patient is not None:
            async with self._patient.stream(method, url, content=data, headers=sent) as answer:
                yield _Incoming(answer.status_code, answer.headers, answer.aiter_bytes())
            return
        try:
            asked = self._opened().request(method, url, data=data, headers=sent, allow_redirects=False)
            async with asked as reply:
                if "," in ",".join(reply.headers.getall("Content-Encoding", ())):
                    raise aiohttp.ClientPayloadError("Can not decode two encodings")
                yield _Incoming(reply.status, reply.headers, reply.content.iter_any())
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as error:
            if isinstance(error, aiohttp.ClientPayloadError) and "decode" not in str(error):
                raise
            from openai import DefaultAsyncHttpxClient

            self._patient = DefaultAsyncHttpxClient(timeout=self._timeout_s, follow_redirects=False)
            raise PassingError("bad_response", f"{_NOT_HTTP} ({str(error)[:_SHOWN]!r})", 0.0) from error

    def _opened(self) -> aiohttp.ClientSession:
        """The session, which is of the loop that it is opened in."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_S, ssl=_trusted(self._url)),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s),
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
                max_headers=_MOST_HEADERS,
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
    except aiohttp.InvalidURL as error:
        raise UserError(f"{error} is no URL; correct base_url (workers.models)") from None
    except (aiohttp.ClientError, OSError):
        raise PassingError("connection", "connection refused or lost") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2"):
            raise
        closed = str(error).startswith(("Server disconnected", "peer closed"))
        if type(error).__name__ in ("RemoteProtocolError", "DecodingError") and not closed:
            raise PassingError("bad_response", f"{_NOT_HTTP} ({error})") from None
        kind: FaultKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        raise PassingError(kind, f"connection refused or lost ({error or type(error).__name__})") from None


def _refusal(status: int, headers: Mapping[str, str], data: bytes, asked: bytes) -> InfrastructureError | WorkerError:
    """What an error reply is; a page of a proxy in between, for one, describes none."""
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    readable = isinstance(said, Mapping | list)
    body = said if readable else data.decode(errors="replace")
    return fault_of_status(status, body, retry_after(headers), asked.decode().casefold(), readable=readable)


def _target(url: str, location: str) -> str:
    """Where a reply redirects to; raises `PassingError` where nobody can be asked there."""
    with suppress(ValueError):
        if urlsplit(moved := urljoin(url, location)).scheme in ("http", "https"):
            return moved
    raise PassingError("bad_response", f"it redirects to {location[:_SHOWN]!r}, which is no server's URL")


def _is_same_server(url: str, other: str) -> bool:
    """Whether two URLs are of one server, or the second is the first's over TLS."""
    before, after = urlsplit(url), urlsplit(other)
    if before.scheme == after.scheme:
        return before.netloc == after.netloc
    return before.hostname == after.hostname and after.scheme == "https" and not (before.port or after.port)


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
