"""Where models write the function that was wanted: `code_replies.jsonl` has replies, and what calling it gives."""

from __future__ import annotations

import json
from pathlib import Path

from orchestai.tasks.program_source import reply_program
from orchestai.workers.base import Request, Signature
from orchestai.workers.prompting.prompts import Chat

CASES = [json.loads(line) for line in Path(__file__).with_name("code_replies.jsonl").read_text().splitlines()]
REQUEST = Request("Return the largest.", Signature("task_func", ("xs",)))


def called(source: str | None) -> object:
    """What the function gives; None where there is none that works."""
    names: dict = {}
    try:
        exec(source or "", names)
        return names["task_func"]([3, 9, 4])
    except Exception:
        return None


def test_the_function_is_found_wherever_it_stands_and_made_of_nothing_else() -> None:
    wanted = {case["case"]: case["gives"] for case in CASES}
    assert {case["case"]: called(Chat().answers(REQUEST, case["reply"])[0]) for case in CASES} == wanted
    assert {case["case"]: called(reply_program(case["reply"], "task_func", 1)) for case in CASES} == wanted
