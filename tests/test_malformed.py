"""What must still be refused, ten inputs for each kind of docs/reports.md: leniency may hide no fault, and believe no
wrong price."""

from __future__ import annotations

import gzip
import json
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import LoraConfig, ModelConfig, TasksConfig, load_config
from orchestai.config.agents import AgentModelConfig
from orchestai.data.table_readers import read_outcome_table
from orchestai.errors import InfrastructureError, UnbilledError, UserError
from orchestai.lm import loading
from orchestai.lm.local_models import AGENTS
from orchestai.rewards.scorers import refuse_unscorable
from orchestai.rewards.unit_tests import code_reward_fn
from orchestai.sandbox import Limits, Sandbox
from orchestai.tasks.suites import open_suite
from orchestai.tasks.task import Task
from orchestai.text.spoken import SpokenListener, spoken
from orchestai.workers import openai_api
from orchestai.workers.api_faults import retry_after
from orchestai.workers.base import WorkerError
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.openai_api import OpenAIGenerator
from support.models.chat_server import Reply, chat
from support.models.chat_server import serving as answering
from support.models.language_model import save_tiny_model
from support.serving.served import models, serving, settings


def accepted(cases: Iterable[Any], call: Callable[[Any], object]) -> list[Any]:
    """The cases that are not refused as the user's."""
    found = []
    for case in cases:
        with suppress(UserError):
            call(case)
            found.append(case)
    return found


PROMPT, PARAMS = Prompt((("user", "hello"),)), SamplingParams(temperature=0.5, max_new_tokens=7)


def generator(url: str) -> OpenAIGenerator:
    return OpenAIGenerator(ModelConfig(kind="openai_api", name="tiny", base_url=url, max_retries=1, timeout_s=5))


# Replies that are no HTTP, or end early.


class _Raw(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline()).strip():
            length = int(line[15:]) if line.lower().startswith(b"content-length:") else length
        self.rfile.read(length)
        self.wfile.write(self.server.raw)  # type: ignore[attr-defined]


@contextmanager
def raw_server() -> Iterator[Any]:
    """Sends its `raw` for whatever it is asked."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Raw) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"  # type: ignore[attr-defined]
        yield server
        server.shutdown()
        thread.join()


def reply(
    *headers: str, body: bytes = json.dumps(chat("Rome")).encode(), more: int = 0, status: str = "200 OK"
) -> bytes:
    lines = [f"HTTP/1.1 {status}", "connection: close", *headers, f"content-length: {len(body) + more}", "", ""]
    return "\r\n".join(lines).encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
RAW = {
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "bad_response"),
    "a chunk without a size": (CHUNKED + b"zz\r\nRome\r\n0\r\n\r\n", "bad_response"),
    "chunks that end early": (CHUNKED + b"4\r\nRome\r\n", "connection"),
    "fewer bytes than promised": (reply(more=40), "connection"),
    "bytes that are no gzip": (reply("content-encoding: gzip"), "bad_response"),
    "half of a gzip": (
        reply("content-encoding: gzip", body=gzip.compress(b'{"choices": 1}' * 99)[:30]),
        "bad_response",
    ),
    "two lengths": (reply("content-length: 10"), "bad_response"),
    "a status that is no number": (reply(status="abc OK"), "bad_response"),
    "a line that is no header": (reply("odd"), "bad_response"),
    "a redirect to a file": (reply("location: file:///etc/passwd", status="302 Found"), "bad_response"),
    "a redirect to no URL": (reply("location: http://[odd", status="307 Found"), "bad_response"),
    "a redirect to nowhere": (reply(status="302 Found"), "bad_request"),
}


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(openai_api, "FIRST_WAIT_S", 0.001)
    with raw_server() as server:
        yield server


@pytest.mark.parametrize("case", RAW)
async def test_what_is_no_reply_of_http_is_none(raw: Any, case: str) -> None:
    raw.raw, kind = RAW[case]
    for heard in (None, list[str]()):
        asked = generator(raw.url)
        with pytest.raises(InfrastructureError) as refused:
            await asked.generate(PROMPT, PARAMS, 0, None if heard is None else heard.append)
        await asked.close()
        assert (refused.value.kind, heard or []) == (kind, [])


def test_the_endpoint_answers_such_replies_with_an_error(raw: Any) -> None:
    raw.raw = reply()
    with serving(settings(models(raw.url, "tiny"), ("tiny",), serving={"failures": 10**6})) as served:
        for case, (raw.raw, _) in RAW.items():
            said = served.chat("Name a town.")
            assert said.status_code >= 500, case
            assert said.json()["error"]["code"] == "workers_failed", case


async def test_a_stream_that_breaks_off_may_have_been_billed(raw: Any) -> None:
    """It counted as a request that was refused, which costs nothing."""
    piece = b'data: {"choices": [{"delta": {"content": "Ro"}}]}\n\n'
    raw.raw = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-type: text/event-stream\r\n\r\n") + b"%x\r\n%b\r\n" % (
        len(piece),
        piece,
    )
    asked, heard = generator(raw.url), list[str]()
    with pytest.raises(InfrastructureError) as broken:
        await asked.generate(PROMPT, PARAMS, 0, heard.append)
    await asked.close()
    assert heard == ["Ro"]
    assert not isinstance(broken.value, UnbilledError)


# Thoughts alone.


THOUGHTS = [
    "<think>\nRome?",
    "<think>Rome?</think>\n<think>Oslo",
    "<think>Rome? <answer>Rome</answer>",
    "<think>```\nRome\n```",
    "<longcat_think>Rome?</longcat_think>",
    "<|inner_prefix|>Rome?<|inner_suffix|>",
    "[THINK]Rome?[/THINK]\n",
    "<|channel|>analysis<|message|>Rome?<|end|><|start|>assistant<|channel|>final<|message|>",
    "assistant<|channel|>analysis<|message|>Rome?",
    "<think>Rome?</think><|im_end|>",
    "<|begin_of_thought|>Rome?<|end_of_thought|><|begin_of_solution|><|end_of_solution|>",
]


@pytest.mark.parametrize("text", [*THOUGHTS, "<think>Rome?</think>\u200b"])
async def test_thoughts_alone_are_no_answer_and_paid(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with answering() as server:
        server.after = Reply(chat(text))
        asked = generator(server.url)
        with pytest.raises(WorkerError) as refused:
            await asked.generate(PROMPT, PARAMS, 0)
        await asked.close()
    assert (refused.value.usage.prompt_tokens, refused.value.usage.completion_tokens) == (11, 3)
    heard: list[str] = []
    listener = SpokenListener(heard.append)
    for letter in text:
        listener(letter)
    listener.finish()
    assert "".join(heard).strip("\u200b \n") == spoken(text).strip("\u200b") == ""


# Lists of models, and what is said of them.


LISTED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a text": ({"data": "tiny"}, ()),
    "models without names": ({"data": [{"id": None}, {"id": 7}, {"id": " "}, {}]}, ()),
    "half a letter": (b'{"data": [{"id": "a\\ud83d"}]}', ()),
    "a name of two lines": ({"data": [{"id": "a\nb: c"}]}, ()),
    "no JSON": (b"{oops", ()),
    "a price below zero": ({"data": ["tiny"]}, ("--price", "tiny=-1,2")),
    "a price that is none": ({"data": ["tiny"]}, ("--price", "tiny=nan,2")),
    "a price in another unit": ({"data": ["tiny"]}, ("--price", "tiny=1e9,2")),
    "one price for two": ({"data": ["tiny"]}, ("--price", "tiny=1")),
    "no model": ({"data": ["tiny"]}, ("--model", "")),
}
UNKNOWN_PRICES = [-1, "nan", "inf", True, "0.15", "free", [1], {"usd": 1}, "1,5", 1e300]
"""For a token: .15 USD is meant for a million."""


def init(body: Any, *words: str) -> None:
    with answering() as server:
        server.after, server.lists = Reply(b"<html>", 405), {"/v1/models": Reply(body)}
        done = CliRunner().invoke(app, ["init", "--server", server.url, *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception


def test_lists_without_names_and_prices_that_are_none_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert accepted(LISTED, lambda case: init(LISTED[case][0], *LISTED[case][1])) == []
    assert not Path("config.yaml").exists()


def test_a_price_that_cannot_be_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = [{"id": f"m{i}", "pricing": {"prompt": said, "completion": said}} for i, said in enumerate(UNKNOWN_PRICES)]
    odd = [{"id": "fee", "pricing": {"prompt": 0, "completion": 0, "request": True}}]
    init({"data": [*listed, *odd], "links": {"next": 7}})
    pool = load_config("config.yaml").workers.pool
    assert not {
        name for name, worker in pool.items() if name[0] == "m" and "price_per_mtok_in_usd" in worker.model_fields_set
    }
    assert "price_per_call_usd" not in pool["fee"].model_fields_set


# Files of tasks.


ASKED = '"instruction": "How far?"'
FILES = {
    "cut off.jsonl": f'{{{ASKED}, "answers": "1"}}\n{{{ASKED}, "ans',
    "an object.jsonl": f'{{{ASKED}, "answers": {{"text": "1"}}}}',
    "infinite.jsonl": f'{{{ASKED}, "answers": 1e400}}',
    "nothing.jsonl": f'{{{ASKED}, "answers": [null, " ", NaN]}}',
    "latin.jsonl": f'{{{ASKED}, "answers": "\u00e9"}}'.encode("latin-1"),
    "no name.jsonl": f'{{{ASKED}, "tests": "assert f(1) == 2", "entry_point": "f g"}}',
    "no test.jsonl": f'{{{ASKED}, "tests": "f(1)"}}',
    "twice.jsonl": "\n".join(f'{{"instruction": "{word}", "answers": "1", "task_id": "x"}}' for word in "ab"),
    "no scorer.jsonl": f'{{{ASKED}, "answers": "1", "scorer": "exakt"}}',
    "no number.jsonl": f'{{{ASKED}, "answers": "many", "scorer": "numeric"}}',
    "more cells.csv": "instruction,answers\na,b,c\n",
    "open.csv": 'instruction,answers\n"a,1\nb,2\n',
}


def open_file(path: Path) -> list[Task]:
    suite = open_suite(TasksConfig(suite="file", path=str(path)))
    tasks = [task for split in suite.splits for task in suite.split(split)]
    refuse_unscorable(tasks)
    return tasks


def test_what_cannot_be_answered_is_no_task(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert accepted(FILES, lambda name: open_file(tmp_path / name)) == []


def test_cells_of_parquet_are_the_texts_that_they_stand_for(tmp_path: Path) -> None:
    """Bytes were `b'Rome'`, and whole numbers of a column that lacks one were `12.0`."""
    for number, answers in enumerate(([12.0, 0.5], [b"Rome", b"Oslo"])):
        rows = Table.from_pydict({"instruction": ["a", "b"], "answers": answers})
        parquet.write_table(rows, tmp_path / f"{number}.parquet")
    found = [task.answers for number in range(2) for task in open_file(tmp_path / f"{number}.parquet")]
    assert found == [("12",), ("0.5",), ("Rome",), ("Oslo",)]
    parquet.write_table(Table.from_pydict({"instruction": ["a"], "answers": [b"\xff"]}), tmp_path / "0.parquet")
    with pytest.raises(UserError):
        open_file(tmp_path / "0.parquet")


# Adapters that cannot learn.


TARGETS = [
    (),
    ("",),
    ("q_prj",),
    ("q_proj", "k_prj"),
    ("input_layernorm",),
    ("self_attn",),
    ("model",),
    ("layers.9.mlp.up_proj",),
]
TARGETS += [(".*_proj",), ("all-linear", "q_proj")]
SETTINGS = [{"rank": 0}, {"rank": 10**6}, {"alpha": 0}, {"alpha": float("inf")}, {"dropout": 1}]


def test_adapters_of_which_one_could_not_learn_are_refused(tmp_path: Path) -> None:
    source = str(save_tiny_model(tmp_path))

    def adapt(targets: tuple[str, ...]) -> None:
        lora = LoraConfig(rank=2, targets=targets)
        model, _ = loading.read_model(source, AgentModelConfig(lora=lora), AGENTS)
        loading.add_adapter(model, lora)

    assert accepted(TARGETS, adapt) == []


def test_adapters_that_add_nothing_or_no_number_are_refused() -> None:
    for setting in SETTINGS:
        with pytest.raises(ValueError, match=next(iter(setting))):
            LoraConfig(**setting)


# Waits.


def test_a_wait_that_is_none_is_not_waited() -> None:
    odd = ("-5", "nan", "inf", "1e3", "12, 13", "0x1f", "", "soon", "Wed, 99 Nov 2026 00:00:00 GMT", "1:30")
    waits = [retry_after({name: said}) for said in odd for name in ("retry-after", "retry-after-ms")]
    assert waits == [None] * 20


# Tables of outcomes.


def rows(*queries: str, **cells: Any) -> list[dict[str, Any]]:
    return [
        {"query": query, "worker": worker, "score": 1, **cells} for query, worker in product(queries or "abcd", "mn")
    ]


TABLES: dict[str, tuple[str, Any]] = {
    "no scores": ("jsonl", rows(score=None)),
    "words for scores": ("jsonl", rows(score="good")),
    "per cent": ("jsonl", rows(score=70)),
    "workers that are no names": ("jsonl", rows(worker={"name": "m"})),
    "numbers of rows for ids": ("jsonl", [{**row, "id": str(number)} for number, row in enumerate(rows())]),
    "true for a cost": ("jsonl", rows(cost_usd=True)),
    "a cost with its sign": ("jsonl", rows(cost_usd="$0.01")),
    "a cost below zero": ("jsonl", rows(cost_usd=-1)),
    "a cost in another unit": ("jsonl", rows(cost_usd=1e12)),
    "tokens below zero": ("jsonl", rows(tokens=-5)),
    "RouterBench without costs by model": ("routerbench", [{"prompt": "x", "score": {"a": 1}, "cost_usd": 3}]),
    "RouteLLM with words alone": ("routellm", "prompt,gpt,mix\nx,hello,why\n"),
}


def test_tables_without_scores_or_with_prices_that_cannot_be_are_refused(tmp_path: Path) -> None:
    def read(case: str) -> None:
        reader, said = TABLES[case]
        path = tmp_path / ("t.csv" if isinstance(said, str) else "t.jsonl")
        path.write_text(said if isinstance(said, str) else "".join(json.dumps(row) + "\n" for row in said))
        read_outcome_table([path], reader, {})

    assert accepted(TABLES, read) == []


# Programs that never end, of which some take no CPU time, and some all that there is.


ENDLESS = [
    "while True: pass",
    "import time; time.sleep(99)",
    "import threading; threading.Event().wait()",
    "import threading; t = threading.Thread(target=lambda: [0 for _ in iter(int, 1)]); t.start(); t.join()",
    "import os; os.fork() or [0 for _ in iter(int, 1)]; os.wait()",
    "9 ** 9 ** 9",
    "import re; re.match('(a+)+b', 'a' * 40)",
    "import os; os.read(os.pipe()[0], 1)",
    "import signal; signal.pause()",
    "import asyncio; asyncio.run(asyncio.Event().wait())",
]


@pytest.mark.slow
async def test_a_program_that_never_ends_is_ended_whatever_it_waits_for() -> None:
    tests = (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(task_func(), 2)\n"
    )
    task = Task(task_id="t", suite="own", instruct_prompt="x", test=tests, entry_point="task_func")
    with Sandbox(workers=2, limits=Limits(wall_s=4, test_s=0.5)) as sandbox:
        for line in ENDLESS:
            outcome = await code_reward_fn(task, f"def task_func():\n    {line}\n    return 2", sandbox)
            assert outcome.value == 0, line  # type: ignore[union-attr]
