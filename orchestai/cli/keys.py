"""`orchestai keys`: who may ask the endpoint, and for how much a day."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestai.serving.store import KeyStore

keys = typer.Typer(no_args_is_help=True, help=__doc__)
Name = Annotated[str, typer.Argument(help="Of whoever has the key.")]


@keys.command()
def add(
    name: Name,
    config: ConfigFile = CONFIG,
    usd_per_day: Annotated[float | None, flag("usd_per_day", "Limit; none unless given. A day is one in UTC.")] = None,
    requests_per_minute: Annotated[int | None, flag("requests_per_minute", "Limit; none unless given.")] = None,
    overrides: Overrides = None,
) -> None:
    """Make a key and print its secret, which is not kept: nobody can show it again."""
    with _store(config, overrides) as store:
        print(store.add(name, usd_per_day, requests_per_minute))


@keys.command("list")
def list_(config: ConfigFile = CONFIG, overrides: Overrides = None) -> None:
    """List the keys: their limits, and what was spent of today's money."""
    with _store(config, overrides) as store:
        accounts = store.list()
    if not accounts:
        say("no keys; make one with: orchestai keys add NAME")
    for account in accounts:
        money = "no limit" if account.usd_per_day is None else f"{account.usd_per_day:g} USD a day"
        rate = "" if account.requests_per_minute is None else f", {account.requests_per_minute} requests a minute"
        today = f"{account.spent_usd:.6g} USD spent today"
        if account.reserved_usd:
            today += f", {account.reserved_usd:.6g} reserved"
        revoked = ", revoked" if account.revoked else ""
        line = f"{account.name}  {account.hint}...  {money}{rate}; {today}{revoked}"
        print(line)


@keys.command()
def revoke(name: Name, config: ConfigFile = CONFIG, overrides: Overrides = None) -> None:
    """Refuse a key from now on; what it has asked for already is answered, if it is paid for."""
    with _store(config, overrides) as store:
        store.revoke(name)
    say(f"{name}: revoked")


@contextmanager
def _store(config: ConfigFile, overrides: list[str] | None) -> Iterator[KeyStore]:
    from orchestai.config import load_config
    from orchestai.serving.store import Database, KeyStore

    with Database.open(load_config(config, overrides or []).serving.database) as database:
        yield KeyStore(database)
