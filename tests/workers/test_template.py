"""Prompts from a file of the user's: what it may name, what it makes, and what is said of a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.config import load_config
from orchestai.sandbox import Sandbox
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.pool import WorkerPool
from orchestai.workers.prompting.template import RequestTemplate
from support.models.chat_server import serving

STEP = Request("Add them up.", role="a clerk", inputs={"1": "3 apples", "2": "4 pears"}, answer_format="A number.")
FILE = """\
{% block system %}
You are {{ role or "an assistant" }}.
{% endblock %}
{% block user %}
{{ instruction }}
{% for step, output in inputs.items() %}
Result of {{ step }}: {{ output }}
{% endfor %}
{% endblock %}
"""
HEADERS = ', headers: {X-Team: blue, X-Api-Key: "k-$TEAM_KEY"}'
CONFIG = f"""
workers:
  models:
    m: {{kind: openai_api, name: m, base_url: %s{HEADERS}, max_retries: 0}}
  pool:
    w: {{kind: model, model: m, strategy: template, template: prompt.j2, card: c}}
  cache_dir: null
"""


async def test_the_file_of_a_template_lies_beside_the_configuration(tmp_path: Path, monkeypatch) -> None:
    """With headers that a gateway knows the user by, of which one is secret."""
    monkeypatch.setenv("TEAM_KEY", "secret-word")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "prompt.j2").write_text(FILE)
    with serving() as server, Sandbox(workers=1) as sandbox:
        (tmp_path / "config.yaml").write_text(CONFIG % server.url)
        config = load_config(tmp_path / "config.yaml")
        assert "secret-word" not in config.to_yaml()
        async with WorkerPool.from_config(config.workers, sandbox) as pool:
            await pool.check()
            await pool.answer("w", STEP)
        assert server.asked[0]["messages"] == [
            {"role": "system", "content": "You are a clerk."},
            {"role": "user", "content": "Add them up.\nResult of 1: 3 apples\nResult of 2: 4 pears"},
        ]
        assert server.headers[0]["x-team"] == "blue"
        assert server.headers[0]["x-api-key"] == "k-secret-word"


def test_a_template_runs_in_jinjas_sandbox() -> None:
    """A file that came with a configuration of somebody else's must not run programs."""
    for source in ("{{ instruction.__class__.__mro__ }}", "{{ inputs.clear() }}", "{{ inputs['9'] }}"):
        with pytest.raises(WorkerError):
            RequestTemplate(source, "t").render(STEP)
