"""`orchestai keys` as its users call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.cli import main
from orchestai.serving.store import Database, KeyStore


def keys(*words: str, database: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["keys", *words, f"serving.database={database}"])
    return int(ended.value.code or 0)


def test_a_key_is_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = f"sqlite:///{tmp_path}/served/keys.db"
    assert keys("add", "alice", "--usd_per_day", "0.5", "--requests-per-minute", "30", database=database) == 0
    secret = capsys.readouterr().out.strip()
    assert keys("list", database=database) == 0
    shown = capsys.readouterr().out
    assert "0.5 USD a day, 30 requests a minute" in shown
    assert secret not in shown
    with Database.open(database) as opened:
        assert KeyStore(opened).authenticate(secret) is not None
    assert keys("revoke", "alice", database=database) == 0
    assert keys("revoke", "alice", database=database) == 2
    with Database.open(database) as opened:
        assert KeyStore(opened).authenticate(secret) is None
