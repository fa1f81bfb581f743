"""Models write calls of every kind and tools do all they can; neither may stall an episode, corrupt it, or be mistaken
for the fault of the other."""

import asyncio
import json

import pytest

from orchestai.agents.conversation import Budget, BudgetConfig, BudgetExceededError, Conversation
from orchestai.agents.tools import FunctionTool, Python, use_tools
from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox import Sandbox
from orchestai.sandbox.program import Limits
from support.agents.scripted import ScriptedChatModel


def call(name: str, **arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class Made:
    """A tool made of a coroutine function."""

    description = "Does it."
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}  # noqa: RUF012

    def __init__(self, name, work):
        self.name = name
        self._work = work

    async def __call__(self, **arguments):
        return await self._work(**arguments)


async def _echo(x):
    return f"got {x}"


ECHO = Made("echo", _echo)


async def _told(tool, said, **options):
    """What a role reads that says this, and then an answer."""
    talk = Conversation("role", ScriptedChatModel([said, "answer"]))
    talk.tell("question")
    act = await use_tools(talk, [tool], max_calls=5, **options)
    assert act.text == "answer"
    return [message["content"] for message in talk.messages if message["role"] == "tool"]


async def test_calls_are_run_until_the_role_answers():
    talk = Conversation(
        "role", ScriptedChatModel([call("echo", x="1"), f"{call('echo', x='2')} <echo>3</echo>", "done"])
    )
    talk.tell("question")
    seen = []
    act = await use_tools(talk, [ECHO], max_calls=5, observe=lambda act, results: seen.append((act, results)))
    assert act.text == "done"
    assert [m["content"] for m in talk.messages if m["role"] == "tool"] == ["got 1", "got 2", "got 3"]
    assert [(act is talk.acts[i], [r.failed for r in results]) for i, (act, results) in enumerate(seen)] == [
        (True, [False]),
        (True, [False, False]),
    ]
    assert [result.call.short for result in seen[1][1]] == [False, True]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("<tool_call>{broken</tool_call>", "error: not JSON: "),
        ("<tool_call>[1]</tool_call>", "error: a call is a JSON object with a name and arguments"),
        ('<tool_call>{"name": "echo", "arguments": 3}</tool_call>', "error: the arguments of a call are a JSON object"),
        ('<tool_call>{"name": "nope", "arguments": {}}</tool_call>', "error: there is no tool 'nope', but echo"),
        (call("echo", y="1"), "error: TypeError: "),
        (f"<tool_call>{'[' * 100_000}</tool_call>", "error: not JSON: "),
        (f'<tool_call>{{"name": "echo", "arguments": {{"x": {"9" * 5000}}}}}</tool_call>', "error: not JSON: "),
    ],
)
async def test_a_call_that_cannot_be_read_is_answered_with_why(said, told):
    (text,) = await _told(ECHO, said)
    assert text.startswith(told)


# What tools do


async def test_an_error_of_a_tool_is_read_by_the_role():
    async def work(x):
        raise ZeroDivisionError("division by zero")

    async def leave(x):
        raise SystemExit(3)

    assert await _told(Made("bad", work), call("bad", x="1")) == ["error: ZeroDivisionError: division by zero"]
    assert await _told(Made("bad", leave), call("bad", x="1")) == ["error: SystemExit: 3"]


async def test_a_tool_that_is_out_of_order_makes_the_attempt_unscorable():
    async def work(x):
        raise InfrastructureError("tool", "the index is gone")

    with pytest.raises(InfrastructureError, match="the index is gone"):
        await _told(Made("bad", work), call("bad", x="1"))


async def test_a_tool_that_hangs_is_left_behind():
    cancelled = asyncio.Event()

    async def work(x):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert await _told(Made("slow", work), call("slow", x="1"), timeout_s=0.02) == [
        "error: slow took longer than 0.02 s"
    ]
    await cancelled.wait()


async def test_a_function_becomes_a_tool_by_its_docstring():
    def add(a: int, b: int = 1) -> int:
        """Adds numbers.

        Args:
            a: first.
            b: second.
        """
        if b < 0:
            raise SystemExit
        return a + b

    tool = FunctionTool(add)
    assert (tool.name, tool.description, tool.parameters["required"]) == ("add", "Adds numbers.", ["a"])
    assert await _told(tool, call("add", a=1, b=4)) == ["5"]
    assert await _told(tool, call("add", a=1, b=-4)) == ["error: RuntimeError: SystemExit()"]
    with pytest.raises(UserError, match="tool"):
        FunctionTool(lambda x: x)


async def test_time_in_calls_is_charged_to_the_budget():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Clock()

    async def work(x):
        clock.now += 6
        return "done"

    talk = Conversation(
        "role", ScriptedChatModel(lambda _: call("slow", x="1")), Budget(BudgetConfig(timeout_s=10), clock)
    )
    with pytest.raises(BudgetExceededError, match=r"12\.0 s of them in calls"):
        await use_tools(talk, [Made("slow", work)], max_calls=9)


# Calculator


# Python


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=6, test_s=1.5, memory_mb=256)) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("print('a')\nprint('b')", "a\nb"),
        ("x = 20\nx + 1", "21"),
        ("```python\nprint(3)\n```", "3"),
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(5)", "120"),
    ],
)
async def test_python_gives_what_a_program_prints(sandbox, code, shown):
    assert await Python(sandbox)(code=code) == shown


async def test_a_program_that_hangs_floods_or_dies_is_an_observation(sandbox):
    programs = {
        "timeout": "while True: pass",
        "died": "import os; os._exit(0)",
        "x": "print('x' * 10**7)",
        "\ufffd": "import sys; sys.stdout.buffer.write(bytes(range(128, 256)))",
    }
    for expected, code in programs.items():
        (text,) = await _told(Python(sandbox), call("python", code=code), timeout_s=60)
        assert text.startswith(expected)
        assert len(text) < 2100
