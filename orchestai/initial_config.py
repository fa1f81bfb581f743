"""The models that servers have, and a commented configuration for them."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from pydantic_core import PydanticCustomError

from orchestai.config import FIRST_POOL, read
from orchestai.config.section import as_yaml, refuse_secret_url
from orchestai.errors import InfrastructureError, UserError
from orchestai.plugins import did_you_mean
from orchestai.workers.api_faults import PassingError
from orchestai.workers.http_client import HttpClient, HttpReply, joined
from orchestai.workers.prices import Prices, typical_price

_TIMEOUT_S = 10.0
_MOST_USD = 10_000.0
"""No model costs more per million tokens, or per call: such a price is in another unit."""
_MOST_PAGES, _MOST_MODELS = 50, 20
"""A server with more is a catalog, of which nobody wants everything in a pool."""
_CURSORS = {"last_id": "after_id", "nextPageToken": "pageToken", "next_page_token": "page_token"}
"""What a page of a list says of the next one -> the parameter that asks for it."""
_PRIVATE = (".localhost", ".local", ".internal", ".lan")
_ENDPOINT = re.compile(r"/+(models|(chat/)?completions)?/*(?=\?|$)")
_WITHOUT_ENDPOINT = (401, 403, 404, 405, 501)
_NOT_CHAT = re.compile(
    r"embed|rerank|\bbge\b|minilm|whisper|transcri|tts|speech|dall-e|image|diffusion|sora|moderation|realtime", re.I
)
ANY_MODEL = "a language model: answers questions, writes, rewrites, summarizes, translates and explains"
"""What a card says of a model of which nothing but the name is known."""
_LONGEST_DESCRIPTION = 300
_UNPRICED = "      # SET price_per_mtok_in_usd and price_per_mtok_out_usd; unknown here, it counts as free\n"
_MAX_NEW_TOKENS = 512
_CONFIG = """\
# OrchestAI's configuration: who can work, and what an answer may cost. What it does not say has its default;
# orchestai/config documents every key, and any can be set on the command line: execution.concurrency=8
workers:
  models:{models}  pool:                # planners choose by the cards
{pool}  # Asked one after the other, free tools first, then cheap to strong, where no planner chooses, and as fallbacks.
  cascade: {cascade}

contract:
  max_cost_usd: 0.05   # of one answer, unless `orchestai run` is told otherwise
"""


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server.

    Attributes:
        key_env: the variable that holds its key; None where it wants none.
    """

    url: str
    key_env: str | None


@dataclass(frozen=True)
class ServedModel:
    """A model that a server has.

    Attributes:
        prices: None where nobody said them.
        description: in the server's words, if it has any.
        chats: whether it answers with text.
    """

    name: str
    server: Server
    prices: Prices | None = None
    description: str = ""
    chats: bool = True

    @property
    def unpriced(self) -> bool:
        return self.prices is None and not is_private(self.server.url)


async def find_models(urls: Sequence[str], key_envs: Sequence[str], names: Sequence[str]) -> list[ServedModel]:
    """The models chosen by name; of a server of which none is chosen, all that can chat.

    Args:
        urls: of OpenAI-compatible servers, with `/v1` or without.
        key_envs: `[HOST=]VARIABLE`, where a key is not in `NAME_API_KEY`, after the server's domain.
        names: `[HOST=]MODEL`.
    """
    servers = _servers(urls, key_envs)
    bare = [_split(name, servers)[1] for name in names]
    listed = dict(await asyncio.gather(*(_ask(server, bare) for server in servers)))
    chosen = []
    for text in dict.fromkeys(names):
        host, name = _split(text, listed)
        meant = [server for server in listed if not host or host in _hosts(server.url)]
        known = [model for server in meant for model in listed[server]]
        # A server that lists nothing is believed to have it.
        found = [model for model in known if name in (model.name, re.sub("^models/|:latest$", "", model.name))] or [
            ServedModel(name, server) for server in meant if not listed[server]
        ]
        if not found:
            hint = _alternatives(name, [model.name for model in known])
            raise UserError(f"--model {text}: no --server has a model {name!r}{hint}")
        if len(found) > 1:
            hosts = " or ".join(f"--model {_hosts(model.server.url)[0]}={name}" for model in found)
            raise UserError(f"--model {text}: of which server? Write {hosts}")
        chosen += found
    models: list[ServedModel] = []
    for server, its in listed.items():
        able = list(dict.fromkeys(model for model in chosen if model.server == server))
        if not able:
            able = list(dict.fromkeys(model for model in its if model.chats))
            if not able:
                raise UserError(
                    f"--server {server.url}: lists no model that could answer; load one there, or name one with --model"
                )
            if len(able) > _MOST_MODELS:
                some = " ".join(f"--model {model.name}" for model in able[:: len(able) // 3][:3])
                raise UserError(
                    f"--server {server.url}: lists {len(able)} models; choose from them, for example {some}"
                )
        models += able
    return models


def set_prices(models: Sequence[ServedModel], prices: Sequence[str]) -> list[ServedModel]:
    """The models with the prices of `MODEL=IN,OUT`, in US dollars per million tokens."""
    said: dict[str, Prices] = {}
    for text in prices:
        name, _, pair = text.rpartition("=")
        try:
            per_token = [float(part) for part in pair.split(",")]
        except ValueError:
            per_token = []
        if not name or len(per_token) != 2 or not all(0 <= price <= _MOST_USD for price in per_token):
            raise UserError(f"--price {text}: write MODEL=IN,OUT in US dollars per million tokens, e.g. gpt-4o=2.5,10")
        if name not in (known := [model.name for model in models]):
            raise UserError(f"--price {text}: there is no model {name!r}{_alternatives(name, known)}")
        said[name] = Prices(0.0, *per_token)
    return [replace(model, prices=said.get(model.name, model.prices)) for model in models]


def write_config(models: Sequence[ServedModel]) -> str:
    """YAML with comments: a worker for each model, the tools of the first pool, and a cascade from cheap to strong."""
    first = read(FIRST_POOL)["workers"]
    tools = {name: worker for name, worker in first["pool"].items() if worker["kind"] == "tool"}
    entries, pool = "", ""
    strength: dict[str, tuple[bool, float, float]] = {}
    for model in models:
        short = model.name.rpartition("/")[2]
        plain = re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-") or "model"
        plain = plain if plain[0].isalpha() else f"m-{plain}"
        numbered = (f"{plain}-{number}" if number > 1 else plain for number in count(1))
        key = next(key for key in numbered if key not in strength and key not in tools)
        # Billions of parameters stand in many names; where they do not, the model is taken to be large.
        size = re.search(r"(\d+(?:\.\d+)?)b\b", model.name.lower())
        typical = typical_price(model.prices or Prices(), 1)
        strength[key] = model.unpriced, typical, float(size[1]) if size else inf
        where = {"base_url": model.server.url, "api_key_env": model.server.key_env}
        entries += textwrap.indent(as_yaml({key: {"kind": "openai_api", "name": model.name, **where}}), "    ")
        card = f"{short}, {ANY_MODEL}" + f". {model.description}" * bool(model.description)
        worker = {"kind": "model", "model": key, "strategy": "chat", "max_new_tokens": _MAX_NEW_TOKENS, "card": card}
        if (prices := model.prices) is not None:
            worker |= {"price_per_call_usd": prices.per_call} if prices.per_call else {}
            worker |= {"price_per_mtok_in_usd": prices.per_mtok_in, "price_per_mtok_out_usd": prices.per_mtok_out}
        pool += textwrap.indent(as_yaml({key: worker}), "    ") + _UNPRICED * model.unpriced
    cascade = [name for name in first["cascade"] if name in tools]
    return _CONFIG.format(
        models="\n" + entries if models else " {}\n",
        pool=pool + textwrap.indent(as_yaml(tools), "    "),
        cascade=json.dumps([*cascade, *sorted(strength, key=strength.__getitem__)]),
    )


def _servers(urls: Sequence[str], key_envs: Sequence[str]) -> list[Server]:
    """Each server with the variable of its key: the one that is named, else the usual one.

    That is `OPENROUTER_API_KEY` for openrouter.ai: so each key goes to its own server alone.
    """
    variables: dict[str, str | None] = {}
    for text in urls:
        try:  # a URL as it is typed becomes one with a scheme and without an endpoint's path
            url = text if "://" in text else f"{'http' if is_private(f'//{text}') else 'https'}://{text}"
            refuse_secret_url(url)
            parts = urlsplit(url)
        except (PydanticCustomError, ValueError) as error:
            said = error.message() if isinstance(error, PydanticCustomError) else error
            raise UserError(f"--server: {said}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(
                f"--server {url}: give the URL of an OpenAI-compatible server, e.g. http://localhost:8000/v1"
            )
        url = _ENDPOINT.sub("", url, count=1)
        usual = "" if is_private(url) else re.sub(r"\W|^(?=\d)", "_", parts.hostname.split(".")[-2].upper())
        variables[url] = f"{usual}_API_KEY" if usual else None
    for text in key_envs:
        host, _, variable = text.rpartition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", variable):
            raise UserError("--key_env takes the name of the variable that holds a key, not the key: export it first")
        if host:
            meant = [url for url in variables if host in _hosts(url)]
        else:
            meant = [url for url in variables if not is_private(url)] or list(variables)
        if not meant:
            raise UserError(f"--key_env {text}: there is no --server {host}".rstrip())
        if not host and len(meant) > 1:
            raise UserError(
                f"--key_env {text}: which server's? Write {' or '.join(f'{_hosts(url)[0]}={text}' for url in meant)}"
            )
        variables |= dict.fromkeys(meant, variable)
    return [Server(url, variable) for url, variable in variables.items()]


def _hosts(url: str) -> tuple[str, str]:
    """How a server may be called: with its port, and without."""
    return urlsplit(url).netloc, urlsplit(url).hostname or ""


def is_private(url: str) -> bool:
    """Whether a server is on this machine or its own network, where keys and prices are the exception."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE)


async def _ask(server: Server, names: Sequence[str]) -> tuple[Server, list[ServedModel]]:
    """The server under the URL that answers, and its models; none where it has no list of them."""
    client = HttpClient(server.url, os.environ.get(server.key_env or "", ""), _TIMEOUT_S)
    path = urlsplit(server.url).path
    suffixes = ("",) if re.search(r"/v\d\w*$", path) else ("", "/v1") if path else ("/v1", "", "/api/v1")
    replies: list[HttpReply] = []
    try:
        for suffix in suffixes:
            reply = await _get(client, joined(server.url, f"{suffix}/models"))
            if (entries := await _entries(client, reply)) is not None:
                found = replace(server, url=_ENDPOINT.sub("", reply.url, count=1))
                return found, [_served(entry, found) for entry in entries]
            replies.append(reply)
        for suffix in suffixes if names else ():
            asked = json.dumps({"model": names[0], "messages": [], "max_tokens": 1}).encode()
            reply = await client.probe(joined(server.url, f"{suffix}/chat/completions"), asked)
            if reply.status not in _WITHOUT_ENDPOINT and not _is_page(reply):
                return replace(server, url=joined(server.url, suffix)), []
        if any(reply.status in (401, 403) for reply in replies):
            another = f"--key_env {_hosts(server.url)[0]}=VARIABLE"
            if server.key_env is None:
                said = f"wants a key: export it in a variable, and pass {another}"
            elif os.environ.get(server.key_env):
                said = f"refuses the key in {server.key_env}: export another one, or pass {another}"
            else:
                said = f"wants a key: export {server.key_env}=..., or pass {another}"
            raise UserError(f"--server {server.url}: {said}")
    except PassingError as fault:
        raise UserError(
            f"--server {server.url}: cannot be reached ({fault}); is it running, and is the URL right?"
        ) from None
    except InfrastructureError as fault:
        raise UserError(f"--server {server.url}: {fault}") from None
    finally:
        await client.close()
    said = ", ".join(
        f"{reply.url} answers HTTP {reply.status}{' with a web page' * _is_page(reply)}" for reply in replies
    )
    raise UserError(
        f"--server {server.url}: no list of models ({said}); give the URL of an OpenAI-compatible API"
        + ("" if names else ", and --model NAME where it has no list")
    )


async def _get(client: HttpClient, url: str, hops: int = 3) -> HttpReply:
    """The reply, after redirects within a host, to which alone the key may go."""
    reply = await client.probe(url)
    if reply.location is None:
        return reply
    if not hops or urlsplit(reply.location).hostname != urlsplit(url).hostname:
        raise UserError(f"--server {url}: redirects to {reply.location}; pass the URL that is meant in the end")
    return await _get(client, reply.location, hops - 1)


def _is_page(reply: HttpReply) -> bool:
    return b"<html" in reply.body[:1000].lower()


async def _entries(client: HttpClient, reply: HttpReply) -> list[dict[str, Any]] | None:
    """What a list of models holds, on this page and the next ones; None where the reply is no list."""
    entries: list[dict[str, Any]] | None = None
    seen: set[str] = set()
    while len(seen) < _MOST_PAGES:
        seen.add(reply.url)
        try:
            said = json.loads(reply.body) if reply.status == 200 else None
        except ValueError:
            return entries
        data = next((said[name] or [] for name in ("data", "models") if name in said), said) if said else said
        if not isinstance(data, list):
            return entries
        entries = entries or []
        for given in data:
            entry = {"id": given} if isinstance(given, str) else given if isinstance(given, dict) else {}
            name = entry.get("id") or entry.get("name")
            if isinstance(name, str) and name.strip() and name.isprintable():
                entries.append({**entry, "id": name})
        about = said if isinstance(said, dict) else {}
        links = about.get("links", about)
        following = links.get("next") if isinstance(links, dict) else None
        for name, parameter in _CURSORS.items():
            if about.get(name) and (name != "last_id" or about.get("has_more")):
                following = "?" + urlencode({**dict(parse_qsl(urlsplit(reply.url).query)), parameter: about[name]})
        try:
            further = urljoin(reply.url, str(following)) if following else ""
            if not further or further in seen or _hosts(further) != _hosts(reply.url):
                break
        except ValueError:
            break
        reply = await _get(client, further)
    return entries


def _served(entry: Mapping[str, Any], server: Server) -> ServedModel:
    """A model as a server lists it; prices and a description are OpenRouter's, in dollars per token."""
    name, pricing, architecture = entry["id"], entry.get("pricing"), entry.get("architecture")
    outputs = architecture.get("output_modalities") if isinstance(architecture, dict) else None
    able = "generateContent" in str(entry.get("supportedGenerationMethods") or "generateContent")
    chats = "text" in outputs if isinstance(outputs, list) else able and not _NOT_CHAT.search(name)
    about = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", str(entry.get("description") or ""))
    prices = None
    try:  # they may be missing, or depend on what is asked, as `-1` says
        said = pricing["prompt"], pricing["completion"], pricing.get("request") or 0  # type: ignore[index, union-attr]
        read, written, per_call = (-inf if isinstance(price, bool) else float(price) for price in said)
        per_token = round(read * 1e6, 6), round(written * 1e6, 6)
        if all(0 <= price <= _MOST_USD for price in (*per_token, per_call)):
            prices = Prices(per_call, *per_token)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    return ServedModel(name, server, prices, textwrap.shorten(about, _LONGEST_DESCRIPTION, placeholder=" ..."), chats)


def _split(text: str, servers: Iterable[Server]) -> tuple[str, str]:
    """`HOST=MODEL` in its parts; a name alone, which may have a `=` in it, has no host."""
    host, equals, name = text.partition("=")
    return (host, name) if equals and any(host in _hosts(server.url) for server in servers) else ("", text)


def _alternatives(name: str, known: Sequence[str]) -> str:
    some = ", ".join(known[:5]) + ", ..." * (len(known) > 5)
    return did_you_mean(name, known) or (f"; there are {some}" if known else "")
