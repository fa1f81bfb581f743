"""Writing: two roles expand an abstract into an introduction, one the background, the other the method (MAGRPO)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from orchestai.agents.joint import History, JointArgs, JointWorkflow, Judgment
from orchestai.rewards import writing
from orchestai.tasks.task import Task

_PARTS = ("the background and motivation", "the methodology and implications")
_FIRST = """\
Expand this abstract of a scientific paper into text for the paper's introduction.

Abstract:
{abstract}

Another writer covers {theirs}, so leave that out. Write {mine}, in running text."""
_AGAIN = """

Your last version:
{own}

The other writer's last version:
{other}

{feedback}

Write your part again, better."""


class WritingArgs(JointArgs):
    min_words: int = Field(writing.MIN_WORDS, ge=0)
    """Fewest words of each text for which there is any reward."""
    max_words: int = Field(writing.MAX_WORDS, ge=1)
    """Most words."""


class Writing(JointWorkflow):
    """Abstract expansion (`OpenMLRL/arXiv_abstract`); both texts are judged together by `writing_reward`.

    With more than one turn each role is then shown both texts of the joint action, and what the reward found.
    """

    roles = ("background", "method")
    Args = WritingArgs
    args: WritingArgs

    def prompts(self, task: Task) -> Sequence[str]:
        """The abstract, and which part is whose."""
        mine, theirs = _PARTS
        return (self._prompt(task, mine, theirs), self._prompt(task, theirs, mine))

    async def judge(self, task: Task, history: History) -> Judgment:
        """The gated reward of the last texts, and how far they came."""
        background, method = history[-1]
        found = self._reward_of(background, method)
        return Judgment(
            found.total,
            success=float(found.passed == 4),
            metrics={
                "gates": found.passed,
                "length": found.length,
                "balance": found.balance,
                "variety": found.variety,
                "style": found.style,
                "words_background": len(background.split()),
                "words_method": len(method.split()),
            },
        )

    def transition(self, task: Task, history: History) -> Sequence[str]:
        """The first prompt again, with both last texts and feedback in words."""
        background, method = history[-1]
        feedback = self.feedback(background, method)
        first, second = self.prompts(task)
        return (
            first + _AGAIN.format(own=background, other=method, feedback=feedback),
            second + _AGAIN.format(own=method, other=background, feedback=feedback),
        )

    def feedback(self, background: str, method: str) -> str:
        """What kept the texts from full marks, at the first gate that they did not pass in full."""
        found = self._reward_of(background, method)
        if not found.length:
            return (
                f"The background has {len(background.split())} words and the methodology {len(method.split())}; "
                f"each must have {self.args.min_words} to {self.args.max_words}."
            )
        if found.balance < 1:
            _, full, full_until, _ = writing.BALANCE
            return (
                f"The methodology is {len(method) / len(background):.2f} times as long as the background; it should be "
                f"{full:g} to {full_until:g} times as long."
            )
        if found.variety < 0.5:
            known, new = writing.content_words(background), writing.content_words(method)
            return (
                f"The background uses {len(known)} different words and the methodology {len(new)}; they should use "
                "about as many."
            )
        return "Lengths and vocabulary fit. Link the sentences by more kinds of transitions, and share more key terms."

    def _prompt(self, task: Task, mine: str, theirs: str) -> str:
        abstract = task.details.get("abstract", task.instruct_prompt)
        return _FIRST.format(abstract=abstract, mine=mine, theirs=theirs)

    def _reward_of(self, background: str, method: str) -> writing.WritingReward:
        return writing.writing_reward(background, method, min_words=self.args.min_words, max_words=self.args.max_words)
