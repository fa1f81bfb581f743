"""The programs in hostile.jsonl and in shared/sandbox/hostile.jsonl, as whoever runs the tests and without privileges.

Some of them kill every process they can and delete folders. They run where namespaces hold them, or not at all.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestai.config import ExecutionConfig
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.sandbox import Sandbox
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.levels import find_namespaces
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer
from orchestai.workflow import Subtask, Workflow
from support.repository import REPOSITORY
from support.sandbox import hostile as sandbox_hostile

OURS = Path(__file__).parent / "hostile.jsonl"
HONEST = Path(__file__).parent / "honest.jsonl"
PROGRAMS = REPOSITORY.parent / "shared" / "sandbox" / "hostile.jsonl"

shared_programs = pytest.mark.skipif(not PROGRAMS.exists(), reason="shared/sandbox/hostile.jsonl is not here")
pytestmark = pytest.mark.skipif(
    not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}"
)


def programs(path: Path = PROGRAMS) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_odd_but_honest_programs_get_their_credit():
    """Their results are of all kinds that the standard library, NumPy, pandas and programs' own classes make."""
    outcomes = sandbox_hostile.run(programs(HONEST))
    assert {outcome["id"]: outcome["faults"] for outcome in outcomes if outcome["faults"]} == {}


@pytest.mark.slow
@pytest.mark.parametrize("slow", [False, True])
def test_our_own_programs_gain_lose_and_harm_nothing_but_what_is_known(slow):
    """They aim at this design: the wire between the processes, names, leftovers, verdicts that never come.

    Slow ones use up a limit of time, or nearly so.
    """
    chosen = [program for program in programs(OURS) if program.get("slow", False) == slow]
    faults = {outcome["id"]: outcome["faults"] for outcome in sandbox_hostile.run(chosen) if outcome["faults"]}
    known = {program["id"] for program in chosen if "known_gap" in program}
    assert {name: fault for name, fault in faults.items() if name not in known} == {}
    assert known <= faults.keys(), "a gap was closed: take its known_gap out of hostile.jsonl"


@pytest.mark.slow
@shared_programs
def test_no_program_gains_loses_or_harms():
    outcomes = list(sandbox_hostile.run(programs()))
    assert len(outcomes) == 107
    assert {outcome["id"]: outcome["faults"] for outcome in outcomes if outcome["faults"]} == {}


@pytest.mark.slow
@shared_programs
@pytest.mark.skipif(os.getuid() != 0, reason="not root, so the other test has no privileges either")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to become another user")
@pytest.mark.parametrize("user", [user for user in sandbox_hostile.USERS if user != "root"])
def test_nor_where_the_sandbox_has_fewer_privileges(user):
    for path in (REPOSITORY / "tests", Path(sys.prefix)):
        if path.is_relative_to(Path.home()) or not all(
            p.stat().st_mode & 0o005 == 0o005 for p in (path, *path.parents)
        ):
            pytest.skip(f"another user cannot read {path}")
    command = sandbox_hostile.command_as(user)
    done = subprocess.run(command, input=PROGRAMS.read_text(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == 107
    assert {outcome["id"]: outcome["faults"] for outcome in outcomes if outcome["faults"]} == {}


class Says:
    """A worker whose answer is the instruction that it is given."""

    async def answer(self, name, request):
        return Answer(text=request.instruction)


@pytest.mark.slow
@shared_programs
@pytest.mark.parametrize("isolation", ["sealed", "open"])
async def test_a_policy_that_answers_with_forgeries_earns_what_an_empty_answer_earns(isolation):
    """Through phase 2's own path: a workflow is executed, its answer judged, the execution rewarded."""
    reward = AbsoluteReward(10.0, "fraction", None, beta=0.0, gamma_latency=0.0, shaped_reward=0.0)
    with Sandbox(workers=2, limits=sandbox_hostile.LIMITS, strictness="strict") as sandbox:
        executor = JudgingExecutor(Says(), sandbox, ExecutionConfig(assembler="sink"))

        async def earned(program: dict, answer: str) -> float:
            task = Task(
                task_id=program["id"],
                suite="hostile",
                instruct_prompt="Be honest.",
                test=program["test"],
                entry_point=program["entry_point"],
                isolation=isolation,
            )
            plan = Workflow([Subtask(id="1", instruction=answer, task_type="string", worker="says")])
            execution = await executor.execute(task, plan)
            return reward.of(execution).total

        forgeries = [program for program in programs() if program["category"] == "forge"]
        gained = {p["id"]: await earned(p, p["code"]) - await earned(p, " ") for p in forgeries}
    assert len(gained) == 47
    assert {name: more for name, more in gained.items() if more > 0} == {}
