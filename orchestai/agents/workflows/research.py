"""Deep research: a planner divides a question, searchers work side by side, a writer cites what they found to a critic.

The report is worth its coverage times the F1 of its citations (see `rewards/citations.py`), which are checked against
the corpus: one that does not exist, or does not support its sentence, costs.
"""

from __future__ import annotations

import asyncio

from pydantic import Field

from orchestai.agents.conversation import Conversation
from orchestai.agents.search_index import SearchFunction, SearchIndex
from orchestai.agents.tools import Search as SearchTool
from orchestai.agents.tools import describe, use_tools
from orchestai.agents.workflow import AttemptContext, all_tagged, shown, verdict, verdict_reward
from orchestai.agents.workflows.search import Library
from orchestai.outcome import Unscorable
from orchestai.rewards.answers import brevity
from orchestai.rewards.citations import ReportFigures, cited_ids, judge_report, stated
from orchestai.tasks.task import Task
from orchestai.text.spoken import spoken
from orchestai.types import Episode

_PLANNER = "You divide a question for researchers. Reply with a few questions: <question>words</question>."
_SEARCHER = (
    "You research a question. Search, then reply with notes: what you found, each sentence with the number of its "
    "passage in brackets, such as [7]."
)
_WRITER = (
    "You write a report that answers a question from notes. After each sentence cite the passages that it rests on by "
    "their numbers in brackets, such as [7]."
)
_CRITIC = (
    "You check a report against the passages that it cites. Reply <verdict>ACCEPT</verdict>, or say what is wrong and "
    "reply <verdict>REVISE</verdict>."
)
_MOST_SEARCHES, _NOTE_WORDS = 2, 100
"""Of one searcher, and words of its notes that are rewarded in full; notes of twice as many earn half."""


class Research(Library):
    """Planner -> parallel searchers -> writer -> critic, until the critic accepts the report."""

    roles = ("planner", "searcher", "writer", "critic")

    class Args(Library.Args):
        max_refinement_iterations: int = Field(2, ge=1)
        """Most reports that are written."""
        max_subquestions: int = Field(3, ge=1)
        """Most searchers; further questions of the planner are ignored."""
        passages: int = Field(3, ge=1)
        """Passages that a search finds."""
        shown_characters: int = Field(2000, ge=100)
        """Of notes, of a report and of the passages that it cites, each, as the next role reads it."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        index, limit = self.index(task), self.args.shown_characters
        tool = SearchTool(index, k=self.args.passages)
        question = f"The question:\n{task.instruction}"
        planner = context.conversation("planner", _PLANNER)
        plan = await planner.ask(question)
        asked = [part for part in all_tagged(plan.text, "question") if part][: self.args.max_subquestions]
        parts = asked or [task.instruction]
        searchers = [context.conversation("searcher", f"{_SEARCHER}\n\n{describe([tool])}") for _ in parts]
        for searcher, part in zip(searchers, parts, strict=True):
            searcher.tell(shown(part, limit))
        found = await asyncio.gather(*(use_tools(searcher, [tool], max_calls=_MOST_SEARCHES) for searcher in searchers))
        notes = "\n".join(f"{part}\n{spoken(act.text)}" for part, act in zip(parts, found, strict=True))

        writer = context.conversation("writer", _WRITER)
        writer.tell(f"{question}\n\nNotes:\n{shown(notes, limit)}")
        critics: list[Conversation] = []
        figures: list[ReportFigures] = []
        accepted = False
        while len(figures) < self.args.max_refinement_iterations and not accepted:
            if critics:
                writer.tell(f"A critic says:\n{shown(critics[-1].acts[0].text, limit)}\n\nWrite the report anew.")
            report = await writer.act()
            context.answer = report.text
            documents = _cited(report.text, index)
            judged = judge_report(report.text, documents, _facts(task, report.text))
            critic = context.conversation("critic", _CRITIC)
            check = await critic.ask(
                f"{question}\n\nThe report:\n{shown(report.text, limit)}\n\n"
                f"The passages that it cites:\n{shown(_quoted(report.text, documents), limit)}"
            )
            said = verdict(check.text, "ACCEPT", "REVISE")
            critic.earn(check, verdict_reward(said, judged.reward))
            accepted = said is True
            critics.append(critic)
            figures.append(judged)

        last = figures[-1]
        planner.earn(plan, last.reward if asked else 0.0)
        for searcher, act in zip(searchers, found, strict=True):
            notes_reward = judge_report(act.text, _cited(act.text, index), _facts(task, act.text)).reward
            searcher.earn(act, notes_reward * brevity(act.text, _NOTE_WORDS))
        for report, judged in zip(writer.acts, figures, strict=True):
            writer.earn(report, judged.reward)
        success = float(last.coverage == 1 and not last.false_citations and last.recall == 1)
        judged_by = task.details.get("facts") or task.answers
        return context.episode(
            last.reward if judged_by else Unscorable("task", f"{task.task_id} names neither facts nor answers"),
            {
                "success": success,
                "final_success": success,
                "planner_runs": 1,
                "subquestions": len(asked),
                "searcher_runs": len(found),
                "searches": sum(len(searcher.acts) for searcher in searchers) - len(found),
                "writer_attempts": len(figures),
                "critic_checks": len(critics),
                "critic_accuracy": sum(critic.reward or 0.0 for critic in critics) / len(critics),
                "coverage": last.coverage,
                "citation_precision": last.precision,
                "citation_recall": last.recall,
                "false_citations": last.false_citations,
                "total_iterations": len(figures),
            },
        )


def _facts(task: Task, report: str) -> list[str]:
    """What a full report states: the task's `facts`, or else any one of its answers."""
    if facts := task.details.get("facts"):
        return list(facts)
    return [answer for answer in task.answers if stated(answer, report)][:1] or list(task.answers[:1])


def _cited(report: str, index: SearchIndex | SearchFunction) -> dict[str, str]:
    """The passages that a report cites and that exist."""
    passages = {name: index.passage(name) for name in cited_ids(report)}
    return {name: passage.whole for name, passage in passages.items() if passage is not None}


def _quoted(report: str, documents: dict[str, str]) -> str:
    return "\n\n".join(f"[{name}] {documents.get(name, 'there is no such passage')}" for name in cited_ids(report))
