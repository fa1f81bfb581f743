"""Maths with tools: an analyzer plans, an executor computes with Python and a calculator, a verifier checks.

The verifier's verdict alone ends the loop; math-verify judges every answer afterwards.
"""

from __future__ import annotations

from pydantic import Field

from orchestai.agents.conversation import Act, Conversation
from orchestai.agents.tools import Calculator, Python, describe, use_tools
from orchestai.agents.workflow import AgentWorkflow, AttemptContext, shown, verdict, verdict_reward
from orchestai.config.section import Section
from orchestai.rewards.scorers import RewardFunction, find_scorer, score
from orchestai.tasks.task import Task
from orchestai.types import Episode

_ANALYSER = "You plan how to solve a maths problem: the quantities, and the steps that compute them. Do not compute."
_EXECUTOR = r"You solve maths problems with tools. End with the final answer as \boxed{answer}."
_VERIFIER = (
    "You check a solution of a maths problem. Reply <verdict>CORRECT</verdict>, or say what is wrong and reply "
    "<verdict>INCORRECT</verdict>."
)
_TOOL_S = 20.0
"""Longest that one call of a tool may take."""


class Maths(AgentWorkflow):
    """Analyser -> executor -> verifier, until the verifier finds the answer correct."""

    roles = ("analyser", "executor", "verifier")

    class Args(Section):
        reward_function: RewardFunction = find_scorer("math_reward_fn")
        """Judges an answer: a name, `module:function`, or a function."""
        max_refinement_iterations: int = Field(3, ge=1)
        """Most solutions that are written for a problem."""
        max_tool_calls: int = Field(3, ge=0)
        """Most calls of tools in a solution."""
        shown_characters: int = Field(2000, ge=100)
        """Of a plan and of a solution, as the next role reads it."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        tools, limit = (Python(self.sandbox), Calculator()), self.args.shown_characters
        problem = f"The problem:\n{task.instruction}"
        analyser = context.conversation("analyser", _ANALYSER)
        plan = await analyser.ask(problem)
        executor = context.conversation("executor", f"{_EXECUTOR}\n\n{describe(tools)}")
        executor.tell(f"{problem}\n\nA plan:\n{shown(plan.text, limit)}")
        solutions: list[Act] = []
        verifiers: list[Conversation] = []
        verdicts: list[bool | None] = []
        while len(solutions) < self.args.max_refinement_iterations and True not in verdicts:
            if solutions:
                executor.tell(
                    f"A reviewer says:\n{shown(verifiers[-1].acts[0].text, limit)}\n\nSolve the problem again."
                )
            solution = await use_tools(executor, tools, max_calls=self.args.max_tool_calls, timeout_s=_TOOL_S)
            context.answer = solution.text
            verifier = context.conversation("verifier", _VERIFIER)
            check = await verifier.ask(f"{problem}\n\nA solution:\n{shown(solution.text, limit)}")
            solutions.append(solution)
            verifiers.append(verifier)
            verdicts.append(verdict(check.text, "CORRECT", "INCORRECT"))
        scores = [await score(self.args.reward_function, task, act.text, self.sandbox) for act in solutions]
        for solution, verifier, said, worth in zip(solutions, verifiers, verdicts, scores, strict=True):
            executor.earn(solution, worth)
            verifier.earn(verifier.acts[0], verdict_reward(said, worth))
        analyser.earn(plan, scores[-1])
        calls = len(executor.acts) - len(solutions)
        return context.episode(
            scores[-1],
            {
                "success": scores[-1],
                "final_success": scores[-1],
                "analyser_runs": 1,
                "executor_attempts": len(solutions),
                "executor_success_rate": sum(scores) / len(scores),
                "tool_calls": calls,
                "verifier_checks": len(verifiers),
                "verifier_accuracy": sum(verifier.reward or 0.0 for verifier in verifiers) / len(verifiers),
                "total_iterations": len(solutions),
            },
        )
