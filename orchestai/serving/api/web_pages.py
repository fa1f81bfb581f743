"""Web pages, which a browser on this machine lets ask servers on it, though they come from elsewhere."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from orchestai.serving.api.errors import ApiError

_OURS = (".localhost", ".local", ".internal")
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
        return "." not in host or host.endswith(_OURS)
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
