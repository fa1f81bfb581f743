"""Real clients against a started server, as `examples/clients` shows them: chat, stream, tools, responses.

They live in environments of their own, which `make clients` sets up: their pins are not ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.models.model_server import model_server
from support.repository import REPOSITORY
from support.serving.served import models, serving, settings

CLIENTS = Path(os.environ.get("ORCHESTAI_CLIENTS", REPOSITORY / ".cache" / "clients"))
PYTHON = CLIENTS / "venv" / "bin" / "python"
EXAMPLES = REPOSITORY / "examples" / "clients"
pytestmark = pytest.mark.skipif(not CLIENTS.exists(), reason=f"no {CLIENTS}: run make clients")
ASKED, CALLED = "calling answers: Is it raining in Oslo?", "calling answers: It rains in Oslo."


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with model_server() as server, serving(settings(models(server.url, "calling"))) as served:
        yield {
            "OPENAI_BASE_URL": f"{served.url}/v1",
            "OPENAI_API_KEY": "none",
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
        }


def said(command: list[str | Path], environment: dict[str, str], folder: Path) -> dict[str, str]:
    """What an example prints, by what stands before the colon."""
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("example", "called"),
    [
        ("openai_python.py", {"tools"}),
        ("openai_agents.py", {"chat tools", "chat stream", "responses tools", "responses stream"}),
        ("langgraph_agent.py", {"chat tools", "responses tools"}),
    ],
)
def test_a_client_for_python(environment: dict[str, str], tmp_path: Path, example: str, called: set[str]) -> None:
    if not PYTHON.exists():
        pytest.skip(f"no {PYTHON}: run make clients")
    told = said([PYTHON, EXAMPLES / example], environment, tmp_path)
    told.pop("spent", None)
    assert told == {name: CALLED if name in called else ASKED for name in told}
    assert called <= told.keys()


def test_the_client_for_javascript(environment: dict[str, str], tmp_path: Path) -> None:
    modules = CLIENTS / "node_modules"
    if shutil.which("node") is None or not modules.exists():
        pytest.skip(f"no node, or no {modules}: run make clients")
    (tmp_path / "node_modules").symlink_to(modules)
    shutil.copy(EXAMPLES / "openai_javascript.mjs", tmp_path)
    told = said(["node", "openai_javascript.mjs"], environment, tmp_path)
    assert told.pop("spent").endswith(" USD")
    assert told.pop("tools") == CALLED
    assert set(told) == {"chat", "stream", "responses", "responses stream"}
    assert set(told.values()) == {ASKED}
