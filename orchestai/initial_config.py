"""The models that servers have, and a commented configuration for them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlparse

import openai
from jinja2 import Environment, StrictUndefined

from orchestai.errors import UserError

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_TIMEOUT_S = 10.0
_NOT_CHAT = re.compile(r"embed|rerank|whisper|tts|dall-e|moderation", re.IGNORECASE)
_CONFIG = """\
# OrchestAI's configuration: who can work, what an answer may cost, and what to learn from.
# Every key is documented where it is declared, in orchestai/config. Any can be set on the command line:
# execution.concurrency=8
planner:
  encoder: minilm            # reads instructions
  max_subtasks: 8

workers:
  models:{% if not models %} {}{% endif %}
{%- for model in models %}
    {{ model.key }}:
      kind: openai_api
      name: {{ model.name | tojson }}
      base_url: {{ model.url }}
      api_key_env: {{ model.key_env }}   # the variable that holds the key; the key itself is written nowhere
{%- endfor %}
  pool:                      # in the order in which planners number them
{%- for model in models %}
    {{ model.key }}:
      kind: model
      model: {{ model.key }}
      strategy: chat         # or template, with a Jinja2 file of your own
      max_new_tokens: 512
      card: {{ (model.name ~ ", a language model. Say here what it does best; planners match this text.") | tojson }}
      price_per_mtok_in_usd: {{ model.price[0] }}{{ model.price_note }}
      price_per_mtok_out_usd: {{ model.price[1] }}
{%- endfor %}
    calculator:
      kind: tool
      tool: calculator
      card: Works out arithmetic wording such as multiply by 3 and add 1. Free; numbers only.
  # Asked one after the other, cheap to strong, where there is no trained planner, and as fallbacks.
  cascade: [{{ cascade | join(", ") }}]
{%- if models %}
  planner_model: {{ cascade[-1] }}   # decomposes tasks that come without steps, and plans with --planner llm
{%- endif %}

tasks:
  answer: text               # or program, a function in Python
  # What to learn from: a file of yours, whose columns are named here.
  # suite: file
  # path: tasks.jsonl
  # columns: {instruction: question, answers: answer}
  # scorer: exact            # or numeric, f1, maths, unit_tests, MODULE:FUNCTION

contract:                    # what holds for one answer of `orchestai run`, unless it is told otherwise
  max_cost_usd: 0.05
  deadline_s: 60

execution:
  assembler: sink            # workers read the texts of the steps before; dataflow: they write functions
  concurrency: {{ concurrency }}
"""


@dataclass(frozen=True)
class ServedModel:
    """A model that a server has.

    Attributes:
        key: what it is called in the configuration.
        local: whether the server runs on this machine.
    """

    key: str
    name: str
    url: str
    key_env: str
    local: bool


async def find_models(servers: Sequence[str], key_env: str) -> list[ServedModel]:
    """The models of OpenAI-compatible servers that can chat, by their `/models`.

    Raises:
        UserError: a server does not answer, refuses the key, or has no models.
    """
    found: list[ServedModel] = []
    for url in servers:
        local = urlparse(url).hostname in _LOCAL_HOSTS
        client = openai.AsyncOpenAI(
            base_url=url, api_key=os.environ.get(key_env) or "none", timeout=_TIMEOUT_S, max_retries=0
        )
        try:
            listed = [model.id async for model in client.models.list()]
        except openai.APIConnectionError:
            raise UserError(f"--server {url}: cannot be reached; is it running, and does its URL end in /v1?") from None
        except openai.AuthenticationError:
            raise UserError(f"--server {url}: refuses the key; export {key_env}=..., or pass --key_env") from None
        except openai.APIError as error:
            raise UserError(f"--server {url}: has no list of models: {error}") from None
        finally:
            await client.close()
        names = [name for name in listed if not _NOT_CHAT.search(name)]
        if not names:
            raise UserError(f"--server {url}: lists no model that could answer")
        for name in names:
            taken = {model.key for model in found}
            found.append(ServedModel(_key(name, taken), name, url, key_env, local))
    return found


def parse_price(text: str) -> tuple[str, tuple[float, float]]:
    """`MODEL=IN,OUT`: US dollars per million tokens.

    Raises:
        UserError: it is written otherwise.
    """
    name, _, pair = text.rpartition("=")
    try:
        read, written = (float(part) for part in pair.split(","))
    except ValueError:
        read = written = -1.0
    if not name or read < 0 or written < 0:
        raise UserError(f"price {text!r}: write MODEL=IN,OUT in US dollars per million tokens, e.g. gpt-4o=2.5,10")
    return name, (read, written)


def write_config(models: Sequence[ServedModel], prices: Mapping[str, tuple[float, float]]) -> str:
    """YAML with comments; models of unknown price on servers elsewhere are marked."""
    by_price = sorted(models, key=lambda model: prices.get(model.name, (0.0, 0.0))[1])
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(_CONFIG)
    return template.render(
        models=[
            {
                **vars(model),
                "price": prices.get(model.name, (0, 0)),
                "price_note": "" if model.local or model.name in prices else "   # SET THIS: it is not known here",
            }
            for model in models
        ],
        cascade=[model.key for model in by_price] or ["calculator"],
        concurrency=32 if models else 8,
    )


def _key(name: str, taken: set[str]) -> str:
    """A short name that is a plain key of YAML."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.rpartition("/")[2].lower()).strip("-") or "model"
    plain = plain if plain[0].isalpha() else f"m-{plain}"
    number = 2
    key = plain
    while key in taken:
        key, number = f"{plain}-{number}", number + 1
    return key
