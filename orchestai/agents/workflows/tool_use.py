"""Question answering with tools over several turns (MT-GRPO on TriviaQA).

The rewards follow "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" (Zeng et al. 2025,
arXiv 2505.11821): a turn is rewarded for calls that worked and for finding a right answer, the episode for giving it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from orchestai.agents.conversation import Act
from orchestai.agents.tools import Calculator, FunctionTool, Python, Search, Tool, ToolResult, use_tools
from orchestai.agents.workflow import AttemptContext
from orchestai.agents.workflows.search import Library
from orchestai.config.section import Section
from orchestai.rewards.answers import f1, finds_answer, tagged_answer
from orchestai.rewards.scorers import RewardFunction, find_scorer, score
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.types import Episode, Speaker

_SYSTEM = (
    "You answer questions. First call a tool to look up what you need. When you know the answer, give it in as few "
    "words as possible, within tags: <answer>Paris</answer>."
)
_WORKED: tuple[tuple[Speaker, str], ...] = (
    ("user", "On which river does the capital of Hungary lie?"),
    ("assistant", "<search>capital of Hungary river</search>"),
    ("tool", "[1] Budapest\nBudapest is the capital of Hungary. It lies on the Danube."),
    ("assistant", "<answer>Danube</answer>"),
    ("user", "Who wrote the opera Fidelio?"),
    ("assistant", "<search>Fidelio opera composer</search>"),
    ("tool", "[1] Fidelio\nFidelio is the only opera by Ludwig van Beethoven. It is set in Seville."),
    ("assistant", "<answer>Ludwig van Beethoven</answer>"),
)
"""Questions, searches, results and answers, as a role would have them."""
_COMPUTES = frozenset({"python", "calculator"})
"""Tools whose results a role can write itself."""


class ToolUse(Library):
    """One role calls tools until it answers.

    A turn with calls earns `tool_reward` if all of them worked and none was made before, and `retrieval_reward` if what
    was looked up holds a right answer that is news: one that is neither in the question or the calls nor was found
    before. The episode's rewards are `correctness`, `reward_function` of the last turn, and `format`, which is
    `format_reward` if that turn tags an answer.
    """

    roles = ("answerer",)
    rewards = ("correctness", "format")

    class Args(Library.Args):
        reward_function: RewardFunction = find_scorer("search_reward_fn")
        """Judges an answer: a name (search_reward_fn: exact match; f1_reward_fn), `module:function`, or a function."""
        tools: tuple[str, ...] = ("search",)
        """`search`, `python`, `calculator`, or `module:function` with type hints and a Google-style docstring."""
        passages: int = Field(3, ge=1)
        """Passages that a search shows."""
        passage_chars: int = Field(500, ge=1)
        """Characters shown of each."""
        max_calls: int = Field(2, ge=1)
        """Most calls; the turn after the last is the answer."""
        tool_reward: float = 0.2
        """Of a turn whose calls all worked, and are not those of an earlier turn."""
        retrieval_reward: float = 0.5
        """Of a turn whose calls found a right answer; `yes` and `no` cannot be found, nor what the question or the call
        itself names. What `python` and `calculator` give is the role's own work, and not found."""
        format_reward: float = 0.2
        """For tagging an answer, if there is one in the tags."""
        worked_examples: bool = False
        """Show two searches with their answers first, to models that were never taught to call tools."""
        system: str = _SYSTEM
        """What the model is told to do."""

    args: Args

    def __init__(self, args: Section, sandbox: Sandbox) -> None:
        super().__init__(args, sandbox)
        known: list[Tool] = [Python(sandbox), Calculator()]
        self._tools = {tool.name: tool for tool in known}
        for name in {*self.args.tools} - {"search", *self._tools}:
            self._tools[name] = FunctionTool.find(name)

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        answerer = context.conversation("answerer", self.args.system)
        for speaker, words in _WORKED if self.args.worked_examples else ():
            answerer.tell(words, speaker)
        answerer.tell(task.instruction)
        found: list[ToolResult] = []
        retrieved: list[bool] = []

        def reward(act: Act, results: Sequence[ToolResult]) -> None:
            # All calls came to something, and none was made before
            made = [(result.call.name, result.call.arguments) for result in found]
            works = not any(result.failed or (result.call.name, result.call.arguments) in made for result in results)
            # A right answer was looked up that nobody had told or asked for by its name
            known = [" ".join(_texts(result.call.arguments or {})) for result in results]
            known += [result.text for result in found]
            looked_up = [result.text for result in results if not result.failed and result.call.name not in _COMPUTES]
            retrieved.append(any(finds_answer(text, task, known) for text in looked_up))
            act.reward = works * self.args.tool_reward + retrieved[-1] * self.args.retrieval_reward
            found.extend(results)

        def search() -> Tool:
            return Search(self.index(task), k=self.args.passages, passage_chars=self.args.passage_chars)

        last = await use_tools(
            answerer,
            [search() if name == "search" else self._tools[name] for name in self.args.tools],
            max_calls=self.args.max_calls,
            observe=reward,
        )
        answer = tagged_answer(last.text)
        context.answer = last.text if answer is None else answer
        right = await score(self.args.reward_function, task, last.text, self.sandbox)
        return context.episode(
            {"correctness": right, "format": self.args.format_reward * bool(answer)},
            {
                "success": right,
                "f1": f1(last.text if answer is None else answer, task.answers, task.suite),
                "tagged": float(bool(answer)),
                "calls": len(found),
                "failed_calls": sum(result.failed for result in found),
                "retrieved": float(any(retrieved)),
                "turns": len(answerer.acts),
            },
        )


def _texts(arguments: Any) -> Iterator[str]:
    """All texts in a call's arguments, as they are, and other values as texts."""
    if isinstance(arguments, Mapping):
        arguments = [*arguments, *arguments.values()]
    if isinstance(arguments, list | tuple):
        for each in arguments:
            yield from _texts(each)
    else:
        yield str(arguments)
