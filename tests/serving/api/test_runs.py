"""Keys, kept runs, feedback, metrics: what is about runs that were served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import select

from orchestai.config import ServingConfig
from orchestai.execution.log import read_log
from orchestai.serving.api.caller import needs_keys
from orchestai.serving.store import Database, KeyStore, all_feedback
from orchestai.serving.store.tables import reservations
from support.serving.absent_database import Absence
from support.serving.contract_workers import PRICE
from support.serving.served import Served, functions, serving, settings


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The address of a database, and two keys in it, of which the second may spend nothing."""
    url = f"sqlite:///{tmp_path_factory.mktemp('db')}/served.db"
    with Database.open(url) as database:
        keys = KeyStore(database)
        return url, keys.add("alice", 1.0, 1000), keys.add("bob", PRICE / 2, 3)


@pytest.fixture(scope="module")
def served(secrets: tuple[str, str, str]) -> Iterator[Served]:
    config = settings(
        {"pool": functions("good", "failing")},
        ("good",),
        serving={"database": secrets[0], "require_keys": True},
    )
    with serving(config) as started:
        yield started


def signed(served: Served, secret: str) -> httpx2.Client:
    return httpx2.Client(base_url=served.url, headers={"authorization": f"Bearer {secret}"}, timeout=30)


BODY = {"model": "orchestai", "messages": [{"role": "user", "content": "Name a town."}], "metadata": {"team": "blue"}}


def test_a_run_is_kept_for_its_key_alone(served: Served, secrets: tuple[str, str, str]) -> None:
    _, alice, bob = secrets
    with signed(served, alice) as mine, signed(served, bob) as other:
        run_id = mine.post("/v1/chat/completions", json=BODY).json()["orchestai"]["run_id"]
        kept = mine.get(f"/v1/runs/{run_id}").json()
        assert kept["status"] == "done"
        assert kept["plan"]["subtasks"][0]["worker"] == "good"
        assert kept["receipt"]["spent_usd"] == PRICE
        assert kept["receipt"]["labels"] == {"team": "blue"}
        assert other.get(f"/v1/runs/{run_id}").json()["error"]["code"] == "run_not_found"
        said = {"run_id": run_id, "score": 0.5}
        assert mine.post("/v1/feedback", json=said).json() == {"object": "orchestai.feedback", "run_id": run_id}
        assert other.post("/v1/feedback", json=said).status_code == 404
        assert mine.post("/v1/feedback", json={"run_id": run_id}).status_code == 400
        for wrong in ({"score": 2}, {"tests": ""}, {"answer": ""}):
            refused = mine.post("/v1/feedback", json={"run_id": run_id, **wrong}).json()["error"]
            assert refused["param"] == next(iter(wrong))


def test_keys_are_checked_and_their_limits_kept(served: Served, secrets: tuple[str, str, str]) -> None:
    for headers in ({}, {"authorization": "Bearer sk-orchestai-wrong"}, {"authorization": "Basic eA=="}):
        reply = served.client.post("/v1/chat/completions", json=BODY, headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        assert served.client.get("/v1/models", headers=headers).status_code == 401
    with signed(served, secrets[2]) as bob:
        poor = bob.post("/v1/chat/completions", json=BODY)
        assert (poor.status_code, poor.json()["error"]["code"]) == (429, "insufficient_quota")
        assert "USD are left of what this key may spend today" in poor.json()["error"]["message"], "not for ever"
        assert poor.headers["x-should-retry"] == "false"
        codes = [bob.post("/v1/chat/completions", json=BODY).json()["error"]["code"] for _ in range(3)]
        assert codes[-1] == "rate_limit_exceeded"


def test_metrics_and_readiness(served: Served, secrets: tuple[str, str, str]) -> None:
    with signed(served, secrets[1]) as client:
        client.post("/v1/chat/completions", json=BODY)
        text = client.get("/metrics").text
    assert 'orchestai_requests_total{route="/v1/chat/completions",status="200"}' in text
    assert 'orchestai_runs_total{status="complete"}' in text
    assert 'orchestai_worker_out_of_order{worker="good"} 0.0' in text
    assert served.client.get("/metrics").status_code == 401
    assert served.client.get("/readyz").json() == {"status": "ok", "out_of_order": []}
    assert served.client.get("/healthz").json() == {"status": "ok"}


def test_without_texts_only_figures_are_kept(tmp_path: Path) -> None:
    config = settings({"pool": functions("good")}, serving={"log": "metadata"})
    with serving(config, tmp_path) as served:
        run_id = served.chat("A secret.").json()["id"]
        kept = served.client.get(f"/v1/runs/{run_id}").text
    for text in (kept, *(path.read_text() for path in tmp_path.glob("*.jsonl"))):
        assert "secret" not in text
        assert '"spent_usd":0.01' in text
    assert len(read_log(tmp_path).records) == 1


def hide(text: str) -> str:
    return text.replace("secret", "***")


def test_texts_are_redacted_before_they_are_kept(tmp_path: Path) -> None:
    config = settings({"pool": functions("good")}, serving={"redact": f"{__name__}:hide"})
    with serving(config, tmp_path) as served:
        said = served.chat("A secret.", metadata={"about": "a secret"}).json()
        kept = served.client.get(f"/v1/runs/{said['id']}").text
        served.client.post("/v1/feedback", json={"run_id": said["id"], "answer": "The secret answer."})
    assert all_feedback(config.serving.database)[said["id"]].answer == "The *** answer."
    assert "about" in kept
    assert said["choices"][0]["message"]["content"] == "good: A secret."
    (record,) = read_log(tmp_path).records
    assert record.answer == "good: A ***."
    assert "secret" not in kept + record.model_dump_json()


def test_a_database_that_does_not_answer_is_a_503_and_what_ran_is_settled_once_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed settlement would hold its money for as long as the server lives."""
    url = f"sqlite:///{tmp_path / 'served.db'}"
    with Database.open(url) as database:
        secret = KeyStore(database).add("alice", 1.0)
    absence = Absence(monkeypatch)
    config = settings({"pool": functions("slow")}, serving={"database": url})
    with serving(config) as served, signed(served, secret) as client, ThreadPoolExecutor() as threads:
        asked = threads.submit(client.post, "/v1/chat/completions", json=BODY)
        with Database.open(url) as database, database.reading() as connection:
            committed = select(reservations.c.run_id).where(reservations.c.committed > 0)
            while connection.scalar(committed) is None:
                connection.rollback()  # else it goes on to see the state that it has seen
                time.sleep(0.01)
        absence.now = True
        assert asked.result().status_code == 200, "it was paid for"
        refused = client.post("/v1/chat/completions", json=BODY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_database")
        absence.now = False
        run_id = asked.result().json()["id"]
        until = time.monotonic() + 10
        with Database.open(url) as database:
            while KeyStore(database).list()[0].reserved_usd and time.monotonic() < until:
                time.sleep(0.05)
            (account,) = KeyStore(database).list()
        assert (account.reserved_usd, account.spent_usd) == (0.0, PRICE)
        assert client.get(f"/v1/runs/{run_id}").json()["status"] == "done"


@pytest.mark.parametrize(
    ("host", "required", "needed"),
    [("127.0.0.1", None, False), ("::1", None, False), ("0.0.0.0", None, True), ("0.0.0.0", False, False)],
)
def test_strangers_need_keys(host: str, required: bool | None, needed: bool) -> None:
    assert needs_keys(ServingConfig(host=host, require_keys=required)) is needed
