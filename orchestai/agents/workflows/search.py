"""Search: a query optimizer writes queries, searchers read what they find, an answerer answers or asks for more.

Passages come from the task itself where it brings some (`details["passages"]`, as HotpotQA's), else from a corpus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ImportString

from orchestai.agents.conversation import Act, Conversation
from orchestai.agents.search_index import Passage, SearchFunction, SearchIndex, open_index
from orchestai.agents.workflow import AgentWorkflow, AttemptContext, all_tagged, shown, tagged
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.outcome import Unscorable
from orchestai.rewards.answers import brevity, finds_answer, holds_answer
from orchestai.rewards.citations import content_words
from orchestai.rewards.scorers import RewardFunction, find_scorer, score
from orchestai.tasks.task import Task
from orchestai.text.spoken import spoken
from orchestai.types import Episode

_OPTIMISER = "You write search queries for a question, each short and about one thing: <query>words</query>."
_SEARCHER = "You read passages for a question. Note in one or two sentences what they say that helps to answer it."
_ANSWERER = (
    "You answer a question from notes. Reply <answer>a few words</answer>, or, if the notes do not say it, "
    "<missing>what to search for</missing>."
)
_NOTE_WORDS = 40
"""Most words of a note that is rewarded in full; one of twice as many earns half."""


class Library(AgentWorkflow):
    """A workflow that reads passages."""

    class Args(Section):
        corpus: Path | None = None
        """A corpus (.jsonl) or the folder of an index of one; not needed where tasks bring their passages."""
        search_tool: ImportString[Callable[[str], Iterable[Any]]] | None = None
        """What finds passages instead: a function from a query to texts, or `module:function`."""

    args: Args

    def index(self, task: Task) -> SearchIndex | SearchFunction:
        """What can be searched for a task."""
        if self.args.search_tool is None and (passages := task.details.get("passages")):
            return SearchIndex.build([Passage(str(i), each["title"], each["text"]) for i, each in enumerate(passages)])
        return self._corpus

    @cached_property
    def _corpus(self) -> SearchIndex | SearchFunction:
        if self.args.search_tool is not None:
            return SearchFunction(self.args.search_tool)
        if self.args.corpus is None:
            raise UserError(
                "the tasks bring no passages; set agents.workflow_args.corpus to a corpus or an index, or search_tool"
            )
        return open_index(self.args.corpus)


class Search(Library):
    """Query optimizer -> searchers -> answerer, until the answerer misses nothing."""

    roles = ("query_optimiser", "searcher", "answerer")

    class Args(Library.Args):
        reward_function: RewardFunction = find_scorer("search_reward_fn")
        """Judges an answer: a name, `module:function`, or a function."""
        max_refinement_iterations: int = Field(2, ge=1)
        """Most rounds of searching."""
        max_queries: int = Field(3, ge=1)
        """Most queries of a round; the others are ignored."""
        passages: int = Field(3, ge=1)
        """Passages that a query finds."""
        shown_characters: int = Field(1500, ge=100)
        """Of the passages of a query, and of all notes, as a role reads them."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        index, question = self.index(task), f"The question:\n{task.instruction}"
        optimizer, answerer = (
            context.conversation("query_optimiser", _OPTIMISER),
            context.conversation("answerer", _ANSWERER),
        )
        limit = self.args.shown_characters
        notes: list[str] = []
        recalls: list[float] = []
        readings: list[tuple[Conversation, str, str]] = []
        replies: list[Act] = []
        asked: list[str] = []
        found: dict[str, Passage] = {}
        request = question
        while len(replies) < self.args.max_refinement_iterations:
            plan = await optimizer.ask(request)
            written = [query for query in all_tagged(plan.text, "query") if query][: self.args.max_queries]
            queries = written or [task.instruction]
            results = await asyncio.gather(
                *(asyncio.to_thread(index.search, query, self.args.passages) for query in queries)
            )
            began = [context.conversation("searcher", _SEARCHER) for _ in queries]
            prompts = []
            for query, passages in zip(queries, results, strict=True):
                text = "\n\n".join(f"[{passage.id}] {passage.title}\n{passage.text}" for passage in passages)
                text = shown(text, limit) or "nothing was found"
                prompts.append(f"{question}\n\nPassages for {shown(query, limit)!r}:\n{text}")
            asking = (searcher.ask(prompt) for searcher, prompt in zip(began, prompts, strict=True))
            read = await asyncio.gather(*asking)
            if written:
                asked += written
                found |= {passage.id: passage for passages in results for passage in passages}
            recalls.append(_recall(task, found.values(), asked))
            readings += zip(began, queries, ["\n".join(one.whole for one in some) for some in results], strict=True)
            notes += [f"{query}: {spoken(act.text)}" for query, act in zip(queries, read, strict=True)]
            reply = await answerer.ask(f"{question}\n\nNotes:\n{self._shown(notes)}")
            replies.append(reply)
            answer = tagged(reply.text, "answer")
            context.answer = reply.text if answer is None else answer
            missing = tagged(reply.text, "missing")
            if answer is not None or not missing:
                break
            request = f"{self._shown(notes)}\n\nStill missing: {shown(missing, limit)}"

        final = await score(self.args.reward_function, task, replies[-1].text, self.sandbox)
        for plan, before, recall in zip(optimizer.acts, [0.0, *recalls], recalls, strict=False):
            optimizer.earn(plan, recall if plan is optimizer.acts[-1] else recall - before)
        for reply in replies:
            answerer.earn(reply, final)
        right_notes = 0
        for searcher, query, passages_read in readings:
            note = searcher.acts[0]
            # A right answer that the passages have, and neither question nor query
            states_answer = holds_answer(passages_read, task) and finds_answer(note.text, task, [query])
            told = content_words(f"{task.instruction} {query}")
            says_something = bool((content_words(note.text) & content_words(passages_read)) - told)
            worth = 1.0 if states_answer else final * says_something
            searcher.earn(note, worth * brevity(note.text, _NOTE_WORDS))
            right_notes += states_answer
        metrics = {
            "success": float(final == 1),
            "final_success": float(final == 1),
            "query_optimiser_runs": len(recalls),
            "queries": len(asked),
            "retrieval_recall": recalls[-1],
            "searcher_runs": len(readings),
            "searcher_success_rate": right_notes / len(readings),
            "answerer_attempts": len(replies),
            "total_iterations": len(replies),
        }
        outcome = final if task.answers else Unscorable("task", f"{task.task_id} has no reference answer")
        return context.episode(outcome, metrics)

    def _shown(self, notes: list[str]) -> str:
        return shown("\n".join(f"- {note}" for note in notes), self.args.shown_characters)


def _recall(task: Task, passages: Iterable[Passage], asked: list[str]) -> float:
    """The share of the supporting titles that were found; where nobody knows them, whether an answer was.

    Args:
        asked: the queries; what one of them names was not found by it.
    """
    passages = list(passages)
    if titles := task.details.get("supporting_titles"):
        return len(set(titles) & {passage.title for passage in passages}) / len(set(titles))
    return float(any(finds_answer(passage.text, task, asked) for passage in passages))
