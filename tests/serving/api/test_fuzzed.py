"""Whatever is sent: no 500, no traceback, no key, an error in OpenAI's format, and nothing left in work.

`benchmarks/serving/fuzz.py` sends 10,000 such requests to a server that is a process of its own.
"""

from __future__ import annotations

import logging
import time

import httpx2
import pytest

from orchestai.serving.store import NO_KEY, Database, ServedRuns
from support.models.model_server import model_server
from support.serving.fuzzed import FEEDBACK, fuzzed
from support.serving.served import models, serving, settings

REQUESTS = 120
KEY = "sk-worker-0123456789"


def test_nothing_that_is_sent_breaks_the_server(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZED_WORKER_KEY", KEY)
    statuses = set()
    with model_server() as server, caplog.at_level(logging.INFO, "orchestai"):
        workers = models(server.url, "talking", "calling", "garbage", api_key_env="FUZZED_WORKER_KEY")
        limits = {"database": url, "max_body_bytes": 65536, "failures": 10**6}
        config = settings(workers, ("talking",), serving=limits, contract={"deadline_s": 2.0})
        with Database.open(url) as database:
            ServedRuns(database).put(FEEDBACK["run_id"], NO_KEY, None, {}).result()
        with serving(config) as served:
            for number in range(REQUESTS):
                request = fuzzed(number)
                began = time.monotonic()
                reply = served.client.request(
                    request.method, request.path, content=request.body, headers=request.headers
                )
                assert time.monotonic() - began < 4, number
                assert reply.status_code != 500, (number, reply.text)
                assert "Traceback" not in reply.text, number
                assert KEY not in reply.text, number
                assert request.method == "HEAD" or reply.status_code < 400 or is_error(reply), (number, reply.text)
                statuses.add(reply.status_code)
            assert "orchestai_in_flight 0.0" in served.client.get("/metrics").text
    said = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert KEY not in said
    assert "Traceback" not in said
    assert {200, 400, 404, 413} <= statuses, "the requests are not as different as they are meant to be"


def is_error(reply: httpx2.Response) -> bool:
    error = reply.json()["error"]
    return error.keys() == {"message", "type", "param", "code"} and bool(error["message"])
