"""DeepCoder: a generator writes a program, visible tests run, a test runner explains what failed, a refiner repairs.

The loop sees nothing but visible tests: the examples that the instruction shows, or `details["visible_test"]`. Hidden
tests judge every program afterwards: what the generator's is worth is its reward, what the last one is worth the
episode's, and what a program gained over the one before is the reward of its refiner and of the test runner before.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from orchestai.agents.conversation import Act, Conversation
from orchestai.agents.workflow import AgentWorkflow, AttemptContext, program, shown
from orchestai.config.section import Section
from orchestai.outcome import judged
from orchestai.rewards.scorers import RewardFunction, find_scorer, score
from orchestai.sandbox import Program, Report
from orchestai.sandbox.examples import example_tests
from orchestai.tasks.code.deepcoder import as_function
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import parse_calls
from orchestai.types import Episode

_GENERATOR = "You write correct Python. Reply with the whole program in one ```python block."
_TEST_RUNNER = "You read a program and what its tests said. Say in a few sentences what is wrong and how to repair it."
_REFINER = "You repair Python programs. Reply with the whole repaired program in one ```python block."
_LOADS = """\
import unittest

class Loads(unittest.TestCase):
    def test_loads(self):
        self.assertTrue(callable({function}))
"""


class DeepCoder(AgentWorkflow):
    """Generator -> test runner -> refiner, until the visible tests pass."""

    roles: ClassVar[tuple[str, ...]] = ("generator", "test_runner", "refiner")

    class Args(Section):
        reward_function: RewardFunction = find_scorer("code_reward_fn")
        """Judges a program at the end, by hidden tests: a name, `module:function`, or a function."""
        max_refinement_iterations: int = Field(3, ge=0)
        """Most times that a program is refined."""
        shown_characters: int = Field(1500, ge=100)
        """Of a program, of an analysis and of what the tests said, each, as the next role reads it."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        limit = self.args.shown_characters
        author = context.conversation("generator", _GENERATOR)
        act = await author.ask(task.instruction)
        authors, report = [author], await self._visible(task, act)
        generator_success = report.success
        analysts: list[Conversation] = []
        while not report.success and len(analysts) < self.args.max_refinement_iterations:
            said = [f"{test.name}: {test.outcome} {test.message}" for test in report.tests if test.outcome != "passed"]
            said = [report.reason, *said] if report.reason else said
            state = (
                f"{task.instruction}\n\nThe program:\n```python\n{shown(_program(task, act), limit)}\n```\n\n"
                f"Its tests say ({report.passed} of {report.total} passed):\n{shown(chr(10).join(said), limit)}"
            )
            analyst, author = (
                context.conversation("test_runner", _TEST_RUNNER),
                context.conversation("refiner", _REFINER),
            )
            analysis = await analyst.ask(state)
            explained = f"{state}\n\nA reviewer says:\n{shown(analysis.text, limit)}"
            act = await author.ask(explained)
            report = await self._visible(task, act)
            authors.append(author)
            analysts.append(analyst)

        context.answer = act.text
        scores = [
            await score(self.args.reward_function, task, _program(task, author.acts[0]), self.sandbox)
            for author in authors
        ]
        authors[0].earn(authors[0].acts[0], scores[0])
        for analyst, refiner, before, after in zip(analysts, authors[1:], scores, scores[1:], strict=False):
            analyst.earn(analyst.acts[0], after - before)
            refiner.earn(refiner.acts[0], after - before)
        final = scores[-1]
        metrics = {
            "success": float(final == 1),
            "final_success": float(final == 1),
            "generator_success": float(scores[0] == 1),
            "generator_visible_success": float(generator_success),
            "visible_success": float(report.success),
            "test_runner_analyses": len(analysts),
            "refiner_attempts": len(authors) - 1,
            "total_iterations": len(analysts),
        }
        if len(authors) > 1:
            metrics["refiner_success_rate"] = sum(worth == 1 for worth in scores[1:]) / (len(authors) - 1)
        return context.episode(final, metrics)

    async def _visible(self, task: Task, act: Act) -> Report:
        """What the visible tests say of a program; where there are none, whether it loads."""
        examples = parse_calls(task.instruction, task.entry_point)
        tests = task.details.get("visible_test") or (
            example_tests(task.entry_point, examples) if examples else _LOADS.format(function=task.entry_point)
        )
        report = await self.sandbox.arun(Program(_program(task, act), tests, task.entry_point))
        judged(report.outcome())
        return report


def _program(task: Task, act: Act) -> str:
    code = program(act.text)
    return as_function(code) if task.details.get("stdin") else code
