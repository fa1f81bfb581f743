"""Break's plans keep their edges, as published and with their references in words."""

from __future__ import annotations

import csv

import pytest

from orchestai.data.readers import READERS
from support.training.plan_files import BREAK, only, write


@pytest.mark.parametrize(
    ("name", "encoding"), [("qdmr.jsonl.gz", ""), ("QDMR/dev.csv", "utf-8"), ("QDMR/dev.csv", "utf-8-sig")]
)
def test_break_as_it_is_published_and_as_json_lines(tmp_path, name, encoding):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name.endswith(".csv"):
        with (tmp_path / name).open("w", newline="", encoding=encoding) as file:
            table = csv.DictWriter(file, list(BREAK))
            table.writeheader()
            table.writerow(BREAK)
    else:
        write(tmp_path / name, [BREAK])
    plan = only("break", tmp_path)
    assert (plan.id, plan.source, plan.licence) == ("ATIS_7", "break", "MIT")
    assert plan.task == "which flights from denver are cheaper than those from boston"
    assert [s.words for s in plan.steps][1] == "return #1 from denver"
    assert plan.edges == {("1", "2"), ("2", "3"), ("1", "4"), ("3", "4")}


@pytest.mark.parametrize(
    ("decomposition", "reason"), [("return #2 ;return #1", "cycle"), ("return #3 ;return #1", "does not exist")]
)
def test_breaks_high_level_plans_are_a_source_and_odd_ones_are_said(tmp_path, decomposition, reason):
    write(tmp_path / "high_level.jsonl", [BREAK, {**BREAK, "decomposition": decomposition}])
    plan, odd = READERS["break"](tmp_path)
    assert plan.source == "break_high_level"
    assert reason in str(odd)


def test_references_in_words_have_the_same_edges_and_are_the_same_each_time(tmp_path):
    """In 200 plans, steps differ in wording and in nothing else; no reference is left as it was."""
    write(tmp_path / "qdmr.jsonl", [{**BREAK, "question_id": f"ATIS_{i}"} for i in range(200)])
    plans = list(READERS["break-worded"](tmp_path))
    assert plans == list(READERS["break-worded"](tmp_path))
    assert {p.source for p in plans} == {"break_worded"}
    assert {p.edges for p in plans} == {frozenset({("1", "2"), ("2", "3"), ("1", "4"), ("3", "4")})}
    steps = [[step.words for step in plan.steps] for plan in plans]
    assert not any("#" in words for one in steps for words in one)
    assert {one[0] for one in steps} == {"return flights"}
    assert all(one[1].startswith("return ") and one[1].endswith(" from denver") for one in steps)
    prices = {one[2].removeprefix("return price of ") for one in steps}
    assert {"those", "the flights from denver", "step 2", "the second result", "the previous result"} <= prices
