"""Text of models in logs and answers does nothing to the terminal that a command was started in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestai.cli import main
from orchestai.errors import UserError
from support.report.folders import judged_record
from support.report.hostile_text import HOSTILE

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def test_problems_with_hostile_names_and_lines_are_told_in_plain_letters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    line = json.loads(judged_record().model_dump_json())
    for number, text in enumerate(HOSTILE):
        name = text[:40].replace("/", " ").replace("\0", "").encode(errors="ignore").decode()
        lines = [line, line | {"outcome": text}, line | {text: text, "cost": text}]
        (folder / f"{number} {name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        (folder / f"{number} {name}.json").write_text(f'{{"{name}\x1b[2J')
    with pytest.raises(SystemExit) as left:
        main(["report", str(folder), "-o", str(tmp_path / "page.html")])
    said = capfd.readouterr()
    assert left.value.code == 0
    assert "not an execution" in said.err
    assert ACTING.findall(said.out + said.err) == []


def test_errors_that_quote_others_act_on_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise UserError("the server said: \x1b]0;title\x07\n\x1b[2Jgone")

    monkeypatch.setattr("orchestai.cli.application.app", refuse)
    with pytest.raises(SystemExit):
        main([])
    said = capfd.readouterr().err
    assert "gone" in said
    assert ACTING.findall(said) == []
