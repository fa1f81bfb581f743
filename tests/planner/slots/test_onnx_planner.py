"""The base planner in ONNX Runtime plans as it does in torch, which the light core has not."""

from itertools import islice

import pytest

from orchestai.config import Config
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.slots.onnx_planner import open_onnx_base
from orchestai.tasks.instructions import held_out_instructions
from orchestai.workers.pool import worker_cards

POOL = {
    "texts": {"kind": "tool", "tool": "texts", "card": "Changes texts: reverses words, counts letters."},
    "sums": {"kind": "tool", "tool": "calculator", "card": "Works out sums and products of numbers."},
}
TEXTS = ["Hi", "Übersetze das, bitte 😀", "Sort the list. " * 80, "1. add 10\n2. triple it\n3. say `a; b`"]


def test_both_give_the_same_plans_and_chances() -> None:
    config = Config(workers={"pool": POOL})
    light = open_onnx_base(config.planner, worker_cards(config.workers))
    heavy = load_planner("base", config.planner, config.workers)
    texts = [*TEXTS, *(one.instruction for one in islice(held_out_instructions(), 24))]
    for text, plan in zip(texts, heavy.plan_instructions(texts), strict=True):
        same = light.plan_instruction(text)
        assert same.workflow == plan.workflow
        assert same.raw_valid == plan.raw_valid
        assert same.confidence == pytest.approx(plan.confidence, abs=1e-3)
