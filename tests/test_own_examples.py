"""The page on workers shows a worker, a scorer, a suite and a reader of one's own: they work, and are that short."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.config import load_config
from orchestai.data.readers import find_reader
from orchestai.outcome import Scored
from orchestai.rewards.scorers import judge, refuse_unscorable
from orchestai.sandbox import Sandbox
from orchestai.tasks.suites import open_suite
from orchestai.workers.base import Request
from orchestai.workers.pool import WorkerPool

PAGE = Path(__file__).parents[1] / "docs" / "workers.md"
FILE = re.compile(r"```(?:python|yaml)\n# (\w+\.\w+)\n(.*?)```", re.S)


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the page shows."""
    files = dict(FILE.findall(PAGE.read_text()))
    assert set(files) == {"my_workers.py", "my_scorers.py", "my_suites.py", "my_readers.py", "config.yaml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)


async def test_what_the_page_shows_works(shown: Path) -> None:
    config = load_config("config.yaml")
    train, test = (open_suite(config.tasks).split(split) for split in ("train", "test"))
    assert [task.answers for task in [*train, *test]] == [("Paris",), ("Tokyo",), ("Nairobi",)]
    refuse_unscorable(train)
    with Sandbox(workers=1) as sandbox:
        async with WorkerPool.from_config(config.workers, sandbox) as pool:
            assert (await pool.answer("shout", Request("hello"))).text == "HELLO"
            said = [(await pool.answer("memory", Request(word))).text for word in ("a", "b", "c")]
            assert said == ["a", "a | b", "b | c"]
        assert (await judge(train[0], "Paris", sandbox)).outcome == Scored(1.0)
        assert (await judge(train[0], "It is Paris", sandbox)).outcome == Scored(pytest.approx(1 / 3))
        assert (await judge(train[0], "Rome", sandbox)).outcome == Scored(0.0)
    (shown / "plans.txt").write_text("Tidy up: wash the cups; dry the cups\nRest: sit down\n")
    tidy, rest = find_reader("my_readers:lists")(shown / "plans.txt")
    assert tidy.edges == {("0", "1")}
    assert [step.words for step in rest.steps] == ["sit down"]
