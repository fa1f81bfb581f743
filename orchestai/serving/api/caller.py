"""Who asks: whoever has a key, or anybody where none is needed."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from orchestai.config import ServingConfig
from orchestai.execution.contract.ledger import Account
from orchestai.serving.api.errors import ApiError
from orchestai.serving.store import NO_KEY, Database, KeyAccount, KeyLedger, KeyStore
from orchestai.serving.store.keys import TooManyRequestsError, count_request

_OUR_PAGES = (".localhost", ".local", ".internal")
"""Domains in which nobody can register a name that leads to this machine."""


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_web_pages(headers: Mapping[str, str]) -> None:
    """Refuse what a page from elsewhere sends, or one whose own name was made to lead to this machine.

    Raises:
        ApiError: `Origin` or `Host` says so.
    """
    if (origin := headers.get("origin")) and not is_loopback(_host(origin)):
        raise _refused("Origin", origin)
    if (host := headers.get("host")) and not _is_here(_host(f"//{host}")):
        raise _refused("Host", host)


def _is_here(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_OUR_PAGES)
    return True


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _refused(header: str, value: str) -> ApiError:
    return ApiError(
        403,
        "foreign_page",
        f"{header}: {value}: without keys this server is for programs on its machine, and not for web pages from "
        "elsewhere; ask with a key (orchestai keys add), or say serving.require_keys=false",
    )


_OURS = "sk-orchestai-"
"""How our secrets begin. Clients on this machine send some key or other, since their libraries want one."""


@dataclass(frozen=True)
class Caller:
    """Who pays.

    Attributes:
        key: the name of the key, under which runs are kept.
        account: of the key's day; None is the server's own.
    """

    key: str = NO_KEY
    account: Account | None = None


class Callers:
    """Tells callers apart by their keys, and counts their requests."""

    def __init__(self, config: ServingConfig, database: Database) -> None:
        self._required = needs_keys(config)
        self._trusts_this_machine = config.require_keys is None and not self._required
        self._database = database
        self._keys = KeyStore(database)

    async def known(self, headers: Mapping[str, str], *, counted: bool = False) -> Caller:
        """Who sends these headers.

        Args:
            counted: among the requests of the key's minute.

        Raises:
            ApiError: a key is needed and there is none, it is refused, its minute is full, or a web page asks without
                one.
        """
        account = await self._account(headers)
        if account is None:
            return Caller()
        try:
            if counted:
                await asyncio.to_thread(count_request, self._database, account.name, account.requests_per_minute)
        except TooManyRequestsError as error:
            after = {"retry-after": f"{max(error.retry_after_s, 1):.0f}"}
            raise ApiError(429, "rate_limit_exceeded", str(error), headers=after) from None
        return Caller(account.name, KeyLedger(self._database, account.name))

    async def _account(self, headers: Mapping[str, str]) -> KeyAccount | None:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        secret = secret.strip() if scheme.lower() == "bearer" else ""
        if not self._required and not secret.startswith(_OURS):
            if self._trusts_this_machine:
                refuse_web_pages(headers)
            return None
        if not secret:
            raise _unauthorized("this server needs a key: send it as `Authorization: Bearer KEY`")
        account = await asyncio.to_thread(self._keys.authenticate, secret)
        if account is None:
            raise _unauthorized("this key is not valid here")
        return account


def needs_keys(config: ServingConfig) -> bool:
    """Whether requests need a key: where others than programs of this machine can send them, unless told otherwise."""
    return not is_loopback(config.host) if config.require_keys is None else config.require_keys


def _unauthorized(message: str) -> ApiError:
    return ApiError(401, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})
