"""`orchestai init` with servers that list their models as Ollama, OpenRouter and others do, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import WorkersConfig, load_config
from orchestai.errors import UserError
from support.models.chat_server import ChatServer, Reply, chat, serving

OLLAMA = [{"id": name, "object": "model", "owned_by": "library"} for name in ("big:70b", "llama3.2:3b", "nomic-embed")]
PRICED = {
    "description": "Fast, after [its forerunner](/models/old). ${oc.env:HOME}",
    "pricing": {"prompt": "0.00000015", "completion": "0.0000006", "request": "0", "image": "0"},
}
OPENROUTER = [{"id": f"some/model-{number}", **PRICED} for number in range(300)] + [
    {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
    {"id": "some/painter", "architecture": {"output_modalities": ["image"]}},
]


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ChatServer, ChatServer]]:
    """One that lists models as Ollama does, and one as OpenRouter does, page by page."""
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "MY_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        local, catalog = (stack.enter_context(serving()) for _ in range(2))
        local.after = catalog.after = Reply(chat("Paris"))
        local.lists = {"/v1/models": listed(OLLAMA)}
        catalog.lists = {
            "/models": Reply(b"<!DOCTYPE html><html>", content_type="text/html"),
            "/api/v1/models": listed(OPENROUTER[:200], links={"next": "/api/v1/models?offset=200"}),
            "/api/v1/models?offset=200": listed(OPENROUTER[200:], links={"next": None}),
        }
        yield local, catalog


def listed(models: list[dict[str, Any]] | None, **more: Any) -> Reply:
    return Reply({"object": "list", "data": models, **more})


def init(*words: str) -> WorkersConfig:
    """What the command writes, which it says anew each time."""
    Path("config.yaml").unlink(missing_ok=True)
    run("init", *words)
    return load_config("config.yaml").workers


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_several_servers_become_a_pool_that_answers(
    servers: tuple[ChatServer, ChatServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, catalog = servers
    host, other = (f"127.0.0.1:{server.server_port}" for server in servers)
    monkeypatch.setenv("MY_KEY", "sk-mine")
    both = ("--server", host, "--server", f"http://{other}", "--key_env", f"{other}=MY_KEY")
    workers = init(*both, "--model", "some/model-299", "--model", "openrouter/auto")
    models = {model.name: model for model in workers.models.values()}
    assert [*models] == ["big:70b", "llama3.2:3b", "some/model-299", "openrouter/auto"]
    assert {models[name].base_url for name in [*models][:2]} == {f"http://{host}/v1"}
    assert {models[name].base_url for name in [*models][2:]} == {f"http://{other}/api/v1"}
    assert [model.api_key_env for model in models.values()] == [None, None, "MY_KEY", "MY_KEY"]
    assert workers.planner_model is None
    models_of_cascade = [name for name in workers.cascade if workers.pool[name].kind == "model"]
    assert models_of_cascade[:2] == ["llama3-2-3b", "big-70b"], "not from cheap and small to strong"
    bought = workers.pool["model-299"]
    assert (bought.price_per_mtok_in_usd, bought.price_per_mtok_out_usd) == (0.15, 0.6)
    assert "after its forerunner. ${oc.env:HOME}" in bought.card, "a server's words were read as a variable"

    assert run("run", "Who was it?", "--allow", "model-299", "workers.cache_dir=null").splitlines()[-1] == "Paris"
    run("run", "Who was it?", "--allow", "big-70b", "workers.cache_dir=null")
    assert (set(local.keys), set(catalog.keys)) == ({None}, {"Bearer sk-mine"}), "a key went astray"


def test_a_key_that_may_not_list_models_and_a_list_of_pages_do_not_stop_it(
    servers: tuple[ChatServer, ChatServer],
) -> None:
    local, _ = servers
    local.lists = {"/v1/models": Reply({}, 403)}
    assert [model.name for model in init("--server", local.url, "--model", "tiny").models.values()] == ["tiny"]
    local.lists = {
        "/v1/models": listed(OLLAMA[:1], has_more=True, last_id="big:70b"),
        "/v1/models?after_id=big:70b": listed(OLLAMA[1:], has_more=False),
    }
    assert [model.name for model in init("--server", local.url).models.values()] == ["big:70b", "llama3.2:3b"]
    able, other = {"supportedGenerationMethods": ["generateContent"]}, {"supportedGenerationMethods": ["embedContent"]}
    local.lists = {
        "/v1/models": Reply({"models": [{"name": "models/a", **able}], "nextPageToken": "x y"}),
        "/v1/models?pageToken=x+y": Reply({"models": [{"name": "models/b", **able}, {"name": "models/c", **other}]}),
    }
    assert [model.name for model in init("--server", local.url).models.values()] == ["models/a", "models/b"]
    assert [model.name for model in init("--server", local.url, "--model", "b").models.values()] == ["models/b"]


PAGE = Reply(b"<html>hello</html>", content_type="text/html")
REFUSED: dict[str, tuple[Reply, tuple[str, ...], str]] = {
    "no key": (Reply({"error": {"message": "Unauthorized"}}, 401), (), "--key_env"),
    "a wrong key": (Reply({}, 401), ("--key_env", "PATH"), "PATH"),
    "a key for its variable": (listed(OLLAMA), ("--key_env", "sk-proj-1"), "--key_env takes the name"),
    "a page": (PAGE, (), "web page"),
    "another host": (Reply(b"", 302, headers={"Location": "https://login.invalid/"}), (), "https://login.invalid/"),
    "no models yet": (listed(None), (), "--model"),
    "a catalog": (listed(OPENROUTER), (), "301 models; choose from them, for example --model some/model-0"),
    "an unknown model": (listed(OLLAMA), ("--model", "lama3.2:3b"), "did you mean 'llama3.2:3b'"),
    "another server's key": (listed(OLLAMA), ("--key_env", "openrouter.ai=MY_KEY"), "openrouter.ai"),
}
"""What a server says, what the user does, and what the message has to name."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_said_in_a_line_with_a_mend(servers: tuple[ChatServer, ChatServer], case: str) -> None:
    reply, words, named = REFUSED[case]
    local, _ = servers
    local.lists, local.after = {"/v1/models": reply}, Reply(PAGE.body, 405)
    with pytest.raises(UserError) as refused:
        init("--server", local.url, *words)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "sk-proj" not in str(refused.value)
    assert not Path("config.yaml").exists()
