"""What of a reply is an answer, and what its model only thought."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.text.spoken import SpokenListener, spoken
from orchestai.text.syntax import parse_python
from orchestai.workers.model_worker import unwrapped, unwrapping

THOUGHTS = [
    "<think>\nOslo?\n</think>\n\nRome",
    "<think></think>\n\n<think>\nOslo?</think>Rome",
    '  <reasoning effort="low">Oslo?</reasoning>\nRome',
    "<thinking>\n```python\nx = 1\n```\n</thinking>\nRome",
    "<seed:think>Oslo?</seed:think>Rome",
    "<think_fast>Oslo?</think_fast>Rome",
    "◁think▷Oslo?◁/think▷Rome",
    "<|START_THINKING|>Oslo?<|END_THINKING|><|START_RESPONSE|>Rome<|END_RESPONSE|>",
    "<|begin_of_thought|>Oslo?<|end_of_thought|>\n<|begin_of_solution|>Rome<|end_of_solution|>",
    "<unused94>thought\nOslo?<unused95>Rome",
    "<|channel>thought\nOslo?<channel|>Rome",
    "analysisOslo?assistantfinalRome",
    "<think>Oslo? <think>No.</think></think>Rome",
    "<thinking>a <reflection>b</reflection> c</thinking>\nRome",
    '<details type="reasoning" done="true"><summary>3 s</summary>\nOslo?\n</details>\nRome',
    "<|channel|>analysis<|message|>Oslo?<|end|><|start|>assistant<|channel|>final<|message|>Rome",
    "Rome\n<think>\nor Oslo? I have no tokens",
    "<think>Oslo? <think>No.</think> Bergen?</think>\nRome",
    "<think>I may write <think> here</think>Rome",
    "<think>I end with `</think>` then.</think>Rome",
    "<|think|>Oslo?<|end|><|begin|>assistant<|content|>Rome<|end|>",
    "**Here is my thought process:**\nOslo?\n**Here is my response:**\nRome[|endofturn|]",
    "<ctrl94>thought\nOslo?<ctrl95>Rome",
    "Here is my thought process:\nOslo?\n\nHere is my response:\nRome",
    "Here's my thought process: Oslo? Here's my response: Rome",
    "Here are my reasoning steps:\nOslo?\n[BEGIN FINAL RESPONSE]\nRome\n[END FINAL RESPONSE]\n<|end|>",
    "## Thinking\n\nOslo?\n\n## Final Response\n\nRome",
    "Thinking...\nOslo?\n...done thinking.\n\nRome",
]
ENDS = [
    *("Rome<|im_end|>", "Rome</s></s>", "Rome<eos>"),
    "Rome<|eot_id|>\n",
    "Rome<|eot_id|> <|eot_id|><|eot_id|>",
    "<think>Oslo?</think>\n\nRome<|endoftext|>",
    "<|channel|>final<|message|>Rome<|return|>",
    "<|im_start|>assistant\nRome<turn|>",
    "<|start|>assistant<|channel|>final <|constrain|>json<|message|>Rome<|end|>",
]
LONE_ENDS = [
    "Oslo?\n</think>\n\nRome",
    "Oslo? No.</think>Rome",
    "a ```b\n</think>\nRome",
    "analysis\nOslo?assistantfinal\nRome",
    "Oslo?\n[BEGIN FINAL RESPONSE]\nRome\n[END FINAL RESPONSE]",
]
WORDS = [
    *("Rome", "The `<think>` tag ends with `</think>`.", "```\n[BEGIN FINAL RESPONSE]\n```", "Old: <s>Oslo</s>"),
    'Write "<think>" before and "</think>" after.',
    *("I mean </think> within a line", "`[BEGIN FINAL RESPONSE]` ends thoughts"),
    "a <think> b",
    "```python\nre.sub(r'<think>.*?</think>\\s*', '', text)\n```",
    "```\n<think>\nhm\n</think>\n```",
    "<answer>Rome</answer>",
    "<s>Oslo</s>",
    "<details>\n<summary>Rome</summary>\nOslo\n</details>",
    "<|im_end|> ends a turn",
    "It ends with `<|im_end|>`",
    "Oslo <Rome",
    "Here is my thought process: first Oslo, then Rome.",
    "## Thinking\nhelps.",
    "a [B] and [END",
    "analysis of the final assistant",
]


def test_thoughts_are_no_answer_and_words_about_them_are_words() -> None:
    thought = [*THOUGHTS, *ENDS, *LONE_ENDS]
    assert {text: spoken(text) for text in thought} == dict.fromkeys(thought, "Rome")
    assert [spoken(text) for text in WORDS] == WORDS


@settings(deadline=None)
@given(st.sampled_from([*THOUGHTS, *ENDS, *WORDS]), st.lists(st.integers(0, 120), max_size=8))
def test_a_stream_says_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    heard: list[str] = []
    listener = SpokenListener(heard.append)
    places = [0, *sorted(cuts), len(text)]
    for begin, end in pairwise(places):
        listener(text[begin:end])
    listener.finish()
    assert spoken("".join(heard)).strip() == spoken(text)
    assert text in WORDS or "".join(heard).strip() == "Rome"


WRAPPED = ("<answer>Rome</answer>", "<Response>\nRome\n</Response>\n", "<final_answer>Rome")
WRAPPED += ("<analysis>Oslo?</analysis>\n<output>Rome</output>", "<reply>Ro</reply>me")
NOT_WRAPPED = ("<analysis>Oslo?", "<a><answer>Rome</answer></a>", "```\n<answer>Rome</answer>\n```", "5 < 6 </")


@pytest.mark.parametrize("size", [1, 5, 99])
def test_tags_around_an_answer_are_the_models_own_unless_they_are_asked_for(size: int) -> None:
    for text in (*WRAPPED, *NOT_WRAPPED):
        for asked in ("", "<analysis> <answer> <response> <output> <final_answer> <reply>"):
            heard: list[str] = []
            tell = unwrapping(heard.append, asked)
            for place in range(0, len(text), size):
                tell(text[place : place + size])
            whole = unwrapped(text, asked)
            assert whole == (text.strip() if asked or text in NOT_WRAPPED else "Rome")
            assert whole.startswith("".join(heard)), text


# Threads that parse at once must not break each other: tests are read in threads while other plans are executed.


T = TypeVar("T")
SOURCE = "x = (1 + 2) * [3, f(4)]\n" * 30


@pytest.fixture
def switching() -> Iterator[None]:
    """Lets other threads run at every garbage collection, and collects often."""
    threshold = gc.get_threshold()

    def let_others_run(phase: str, info: object) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(let_others_run)


def below(frames: int, parse: Callable[[], T]) -> T:
    """What is parsed from `frames` calls further down: the depth is what CPython's check compares."""
    return below(frames - 1, parse) if frames else parse()


def test_threads_at_different_depths_parse_at_once(switching: None) -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(lambda frames: below(frames, lambda: parse_python(SOURCE)), [0, 30, 60, 90] * 20))
    assert {ast.unparse(tree) for tree in trees} == {ast.unparse(ast.parse(SOURCE))}
