"""What a model is asked, and how a usable program is made of its reply."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.tasks import program_source as source
from orchestai.tasks.composition.generate import OPERATIONS
from orchestai.tasks.programs import parses
from orchestai.tasks.visible_examples import Example
from orchestai.workers.base import Request, Signature
from orchestai.workers.prompting.prompts import SHOTS, Chat, Complete, make_head

STEP = Signature("step", ("x",))


def run(code: str, name: str, *args: object) -> object:
    namespace: dict[str, object] = {}
    exec(code, namespace)
    return namespace[name](*args)  # type: ignore[operator]


def test_worked_examples_are_right_and_leak_no_operation_of_the_suite() -> None:
    known = {phrasing.text for operation in OPERATIONS for phrasing in operation.phrasings}
    for shot in SHOTS:
        head = make_head(shot.signature, shot.instruction, (shot.example,))
        code = source.with_imports(f"{head.code}    {shot.body}\n")
        args = [ast.literal_eval(arg) for arg in shot.example.args]
        assert run(code, head.name, *args) == ast.literal_eval(shot.example.result), shot.instruction
        assert shot.instruction not in known
        for operation in OPERATIONS:
            if len(operation.inputs) == len(args):
                cases = [phrasing.args for phrasing in operation.phrasings]
                assert not agrees(code, head.name, operation.function, cases), (shot.instruction, operation.name)


def agrees(code: str, name: str, function, cases: list[tuple[object, ...]]) -> bool:  # type: ignore[no-untyped-def]
    try:
        return all(run(code, name, *case) == function(*case) for case in cases)
    except Exception:
        return False


def test_the_role_and_the_inputs_reach_the_model_where_text_is_wanted() -> None:
    request = Request("Summarise the notes.", role="You are brief.", inputs={"1": "long notes"})
    for asked in (Chat(), Complete()):
        prompt = asked.prompt(request)
        assert prompt.messages[0] == ("system", "You are brief.")
        assert "long notes" in prompt.messages[-1][1]
        assert prompt.prefill == ""
        assert asked.answers(request, " Short.\n") == ["Short."]


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=40))
def test_any_reply_to_any_instruction_gives_a_program_that_parses(reply: str, instruction: str) -> None:
    """A model may write anything; the head alone must always be a program."""
    request = Request(instruction, STEP, (Example(('\'a"""\\n\'',), "2"),))
    assert parses(Complete().answers(request, reply)[0])
