"""What Dockerfile and compose.yaml name is there and means what they want; without Docker, which few machines have."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from orchestai.cli import app, main
from orchestai.config import load_config
from orchestai.serving.store import Database, KeyStore
from support.repository import REPOSITORY

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
COMPOSE = (REPOSITORY / "compose.yaml").read_text()
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
SERVERS = ("one", "two")


@pytest.mark.parametrize("server", SERVERS)
def test_servers_listen_for_others_on_the_shared_database(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = SERVICES[server]
    url = service["environment"]["ORCHESTAI_DATABASE"].replace("${POSTGRES_PASSWORD:?}", "word")
    monkeypatch.setenv("ORCHESTAI_DATABASE", url)
    verb, *words = [word.replace("$$", "$") for word in service["command"]]
    command: Any = get_command(app)
    given = command.commands[verb].make_context(verb, list(words)).params
    config = load_config(REPOSITORY / "config.yaml", given["overrides"])
    assert config.serving.database == url == "postgresql+psycopg://orchestai:word@postgres/orchestai"
    assert given["host"] == "0.0.0.0"
    proxy = (REPOSITORY / "examples" / "serving" / "nginx.conf").read_text()
    assert f"server {server}:{config.serving.port};" in proxy
    assert f"EXPOSE {config.serving.port}" in DOCKERFILE


def test_a_key_is_added_to_the_database_of_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a setting it went into a file that no server reads."""
    database = f"sqlite:///{tmp_path}/served.db"
    monkeypatch.setenv("ORCHESTAI_DATABASE", database)
    monkeypatch.chdir(tmp_path)
    line = next(line for line in COMPOSE.splitlines() if "orchestai keys" in line)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line.split(" orchestai ")[1]))
    assert not ended.value.code
    with Database.open(database) as opened:
        assert [account.name for account in KeyStore(opened).list()] == ["alice"]
