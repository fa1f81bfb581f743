"""Question answering with tools over several turns (MT-GRPO on TriviaQA).

The rewards follow "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" (Zeng et al. 2025,
arXiv 2505.11821): a turn is rewarded for calls that worked and for finding a right answer, the episode for giving it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from orchestai.agents.conversation import Act
from orchestai.agents.tools import (
    Calculator,
    FunctionTool,
    Passage,
    Python,
    Search,
    SearchIndex,
    Tool,
    ToolResult,
    open_index,
    use_tools,
)
from orchestai.agents.workflow import Agents, AgentWorkflow
from orchestai.errors import UserError
from orchestai.rewards.answers import f1, normalised, tagged_answer
from orchestai.rewards.functions import RewardFunction, find_reward, score
from orchestai.sandbox import Sandbox
from orchestai.section import Section
from orchestai.tasks.task import Task
from orchestai.training.rl.episode import Episode

_SYSTEM = (
    "You answer questions. First call a tool to look up what you need. When you know the answer, give it in as few "
    "words as possible, within tags: <answer>Paris</answer>."
)


class ToolUse(AgentWorkflow):
    """One role calls tools until it answers.

    A turn with calls earns `tool_reward` if all of them worked, and `retrieval_reward` if what they gave holds a right
    answer. The episode is worth `reward_function` of the last turn, and `format_reward` if that turn tags its answer.
    """

    roles = ("answerer",)

    class Args(Section):
        reward_function: RewardFunction = find_reward("search_reward_fn")
        """Judges an answer: a name (search_reward_fn: exact match; f1_reward_fn), `module:function`, or a function."""
        tools: tuple[str, ...] = ("search",)
        """`search`, `python`, `calculator`, or `module:function` with type hints and a Google-style docstring."""
        corpus: Path | None = Path("data/agents/corpus.jsonl")
        """What is searched: passages (.jsonl), or a folder that `orchestai agents index` wrote. null: the passages that
        come with each task (HotpotQA)."""
        passages: int = Field(3, ge=1)
        """Passages that a search shows."""
        passage_chars: int = Field(500, ge=1)
        """Characters shown of each."""
        max_calls: int = Field(2, ge=1)
        """Most calls; the turn after the last is the answer."""
        tool_timeout_s: float = Field(30.0, gt=0)
        """Longest that one call may take."""
        tool_reward: float = 0.2
        """Of a turn whose calls all worked."""
        retrieval_reward: float = 0.5
        """Of a turn whose calls found a right answer; `yes` and `no` cannot be found."""
        format_reward: float = 0.2
        """For tagging the answer."""
        describe_tools: bool = True
        """Tell the model which tools there are and how to call them. Without, it must have learned that."""
        system: str = _SYSTEM
        """What the model is told to do."""

    args: Args

    def __init__(self, args: Section, sandbox: Sandbox) -> None:
        super().__init__(args, sandbox)
        self._index: SearchIndex | None = None
        if "search" in self.args.tools and self.args.corpus is not None:
            self._index = open_index(self.args.corpus)
        known: list[Tool] = [Python(sandbox), Calculator()]
        self._tools = {tool.name: tool for tool in known}
        for name in {*self.args.tools} - {"search", *self._tools}:
            self._tools[name] = FunctionTool.find(name)

    async def run(self, task: Task, agents: Agents) -> Episode:
        answerer = agents.begin("answerer", self.args.system)
        answerer.tell(task.instruction)
        found: list[ToolResult] = []

        def reward(act: Act, results: Sequence[ToolResult]) -> None:
            found.extend(results)
            works = not any(result.failed for result in results)
            retrieves = any(holds_answer(result.text, task) for result in results)
            act.reward = works * self.args.tool_reward + retrieves * self.args.retrieval_reward

        last = await use_tools(
            answerer,
            [self._tool(name, task) for name in self.args.tools],
            max_calls=self.args.max_calls,
            timeout_s=self.args.tool_timeout_s,
            describes=self.args.describe_tools,
            observe=reward,
        )
        right = await score(self.args.reward_function, task, last.text, self.sandbox)
        answer = tagged_answer(last.text)
        return agents.episode(
            right + self.args.format_reward * (answer is not None),
            {
                "success": right,
                "f1": f1(last.text if answer is None else answer, task.answers, task.suite),
                "tagged": float(answer is not None),
                "calls": len(found),
                "failed_calls": sum(result.failed for result in found),
                "retrieved": float(any(holds_answer(result.text, task) for result in found)),
                "turns": len(answerer.acts),
            },
        )

    def _tool(self, name: str, task: Task) -> Tool:
        if name != "search":
            return self._tools[name]
        index = self._index or SearchIndex.build(_passages(task))
        return Search(index, k=self.args.passages, passage_chars=self.args.passage_chars)


def holds_answer(text: str, task: Task) -> bool:
    """Whether a text has the words of a right answer in a row. `yes` and `no` are in every text and say nothing."""
    words = f" {normalised(text, task.suite)} "
    answers = {normalised(answer, task.suite) for answer in task.answers} - {"yes", "no", ""}
    return any(f" {answer} " in words for answer in answers)


def _passages(task: Task) -> list[Passage]:
    own = task.details.get("passages")
    if not own:
        raise UserError(
            f"task {task.task_id} comes without passages to search; set agents.workflow_args.corpus to a corpus"
        )
    return [Passage(str(i), passage["title"], passage["text"]) for i, passage in enumerate(own, start=1)]
