"""A table of outcomes as training data, and as a pool of recorded workers that plans can be run on without a key."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from orchestai.config import Config
from orchestai.config.section import as_yaml
from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.outcome_table import MEASURES, OutcomeTable, Values, nan_mean
from orchestai.data.prepare import FOR_TESTS
from orchestai.data.training_file import TrainingExample, meta_path, save_training_data
from orchestai.errors import UserError
from orchestai.estimate.answers import Verdicts, fit_answer_judge
from orchestai.estimate.attempts import WHOLE, StepAttempts
from orchestai.estimate.pool_estimate import PoolEstimate, fit_pool_estimate, kinds_of
from orchestai.estimate.success import group_folds
from orchestai.execution.reward import typical
from orchestai.planner.checkpoint import write_estimate
from orchestai.planner.files import estimate_path
from orchestai.planner.slots.text_encoder import query_features
from orchestai.rewards.scorers import RECORDED, RECORDED_SCORES, scores_by_answer
from orchestai.storage.artifacts import write_bytes, write_text
from orchestai.tasks.splits import PARTS, Part, divide
from orchestai.tasks.task import Task
from orchestai.tasks.written import write_tasks
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow


def write_outcomes(path: Path | str, table: OutcomeTable) -> None:
    """Write one line per query and worker of which anything is known; the same bytes for the same table.

    The first line of a worker has its card.
    """
    lines = []
    cards = dict(table.cards)
    for row, (id, query, task_type) in enumerate(zip(table.ids, table.texts, table.task_types, strict=True)):
        for column, worker in enumerate(table.workers):
            measured = {name: float(getattr(table, name)[row, column]) for name in MEASURES}
            cell: dict[str, Any] = {name: value for name, value in measured.items() if np.isfinite(value)}
            if table.replies is not None and (reply := table.replies[row][column]) is not None:
                cell["reply"] = reply
            if cell:
                if card := cards.pop(worker, ""):
                    cell["card"] = card
                about = {"id": id, "query": query, "task_type": task_type, "worker": worker}
                lines.append(json.dumps(about | cell, ensure_ascii=False) + "\n")
    write_bytes(path, gzip.compress("".join(lines).encode(), mtime=0))


def table_estimate(
    table: OutcomeTable, prices: Values, cache_dir: Path, visible: Values | None = None
) -> PoolEstimate | None:
    """What the table's workers achieve and take on its queries, each asked whole; None where too little is known.

    Near-duplicates are held out together, so that what is learned holds for queries that are new.

    Args:
        prices: (workers,) US dollars of a typical request, 0 where nobody knows.
        cache_dir: see `query_features`.
        visible: (queries, workers) 1 where a reply passed the check that whoever asks can see, 0 where it did not; None
            where there is no such check.
    """
    attempts = table_attempts(table, prices, visible)
    folds = group_folds(attempts.groups, 0)[attempts.row]
    kinds = table.task_types if len(set(table.task_types)) > 1 else ()
    features = query_features(table.texts, cache_dir)
    estimate = fit_pool_estimate(attempts, features, kinds=kinds, folds=folds)
    if estimate is None or table.replies is None:
        return estimate
    types = kinds_of(features, features, kinds, attempts.groups) if kinds else (WHOLE,) * len(table)
    verdicts = Verdicts(table.score, table.cost_usd)
    judge = fit_answer_judge(table.texts, types, table.replies, verdicts, None if visible is None else visible == 0)
    return replace(estimate, judge=judge)


def table_attempts(table: OutcomeTable, prices: Values, visible: Values | None = None) -> StepAttempts:
    """Each outcome as an execution of one step, the whole task; see `table_estimate`."""
    known = np.isfinite(table.score) & (True if visible is None else np.isfinite(visible))
    row, worker = np.nonzero(known)
    score = table.score[known]
    passed = np.ones(len(row)) if visible is None else visible[known]
    cost, seconds = table.cost_usd[known], table.latency_s[known]
    return StepAttempts(
        workers=table.workers,
        texts=table.texts,
        task_types=(WHOLE,) * len(table),
        groups=near_duplicate_groups(table.texts, types=table.task_types),
        prices=prices,
        planned=tuple(((int(one), (int(who),)),) for one, who in zip(row, worker, strict=True)),
        succeeded=score,
        spent_usd=cost,
        seconds=seconds,
        execution=np.arange(len(row)),
        row=row,
        worker=worker,
        passed=passed,
        right=score * passed,
        spending=np.stack([cost, seconds, table.tokens[known]], axis=1),
    )


_NO_TYPE = "query"


@dataclass(frozen=True)
class PreparedTable:
    """What `prepare --from-table` wrote.

    Attributes:
        queries: by part, those for tests included.
        outcomes: that the estimate of the workers was learned from; 0 where they are too few.
        replies: that recorded workers know.
        dropped: reason -> number of queries, or of outcomes.
        unpriced: workers of the recorded pool whose price is that of the others, as nobody measured their costs.
        config: where the configuration of the recorded pool is; None where the configured pool has the workers.
    """

    queries: Mapping[str, int]
    outcomes: int
    replies: int
    config: Path | None
    dropped: dict[str, int] = field(default_factory=dict)
    unpriced: tuple[str, ...] = ()

    def table(self) -> Table:
        """For the terminal."""
        table = Table("prepare", "number", title_justify="left")
        for part, count in self.queries.items():
            table.add_row(f"queries: {part}", str(count))
        table.add_row("outcomes learned from", str(self.outcomes) if self.outcomes else "none: too few")
        table.add_row("recorded replies", str(self.replies))
        for worker in self.unpriced:
            table.add_row(escape(f"price of {worker}"), "nobody measured: the mean of the others")
        for reason, count in self.dropped.items():
            table.add_row(escape(f"dropped: {reason}"), str(count))
        return table


def refuse_overwriting(output: Path, read: Sequence[Path]) -> None:
    """Refuse to write over what is read, or into a folder of which all tables are read."""
    beside = (*(_beside(output, one) for one in (_OUTCOMES, _TASKS, _POOL)), meta_path(output), estimate_path(output))
    for path in (output, *beside):
        if over := next((one for one in read if one.resolve() in (path.resolve(), path.resolve().parent)), None):
            where = "into the folder" if over.is_dir() else "over"
            raise UserError(
                f"--output {output}: {path.name} would be written {where} {over}, which is read; name another file"
            )


def prepare_table(
    table: OutcomeTable,
    config: Config,
    output: Path,
    tasks: Sequence[Task] | None = None,
    visible: Values | None = None,
) -> PreparedTable:
    """Write training data from a table, and, where the configured pool has none of its workers, a pool that has.

    Its outcomes give the estimate of the workers, which phase 1 puts into its checkpoints. The table's workers make a
    pool of recorded workers, in a configuration beside the training file, with their replies and, where there are
    replies, the tasks that they answer. Near-duplicates are in one part, and nothing is learned from those for tests.

    Args:
        output: the training file; the names of what stands beside it begin with its stem.
        tasks: (queries,) whose tests have given the scores; None where the table's own scores count.
        visible: (queries, workers) see `table_estimate`.
    """
    own = [place for place, worker in enumerate(table.workers) if worker in config.workers.pool]
    dropped: Counter[str] = Counter(table.unusable)
    # The part of each query, by the words of the first of its near-duplicates
    settings = config.tasks
    groups = near_duplicate_groups(table.texts, types=table.task_types)
    first = {int(group): text for group, text in zip(groups[::-1], table.texts[::-1], strict=True)}
    parts = divide([first[int(group)] for group in groups], settings)
    learned = np.array([row for row, part in enumerate(parts) if part != "test"], dtype=np.intp)
    recorded: Path | None = None
    unpriced: tuple[str, ...] = ()
    if own:
        dropped["an outcome of a worker that is not in workers.pool"] = int(
            np.isfinite(np.delete(table.score, own, axis=1)).sum()
        )
        table = table.only([table.workers[place] for place in own])
        visible = None if visible is None else visible[:, own]
    else:
        recorded = _beside(output, _POOL)
        config = _recorded_config(table, table.take(learned), config, output, recorded)
        costs = zip(table.workers, table.cost_usd.T, strict=True)
        unpriced = tuple(worker for worker, own in costs if table.priced and np.isnan(own).all())
    counts: Counter[str] = Counter(parts)
    if not counts["train"]:
        raise UserError(f"{table.source}: no query to learn from; {len(table)} are too few")
    dropped[FOR_TESTS] = counts["test"]
    of_pool = {card.name: card.price_usd for card in worker_cards(config.workers)}
    prices = np.array([of_pool[worker] for worker in table.workers])
    seen = None if visible is None else visible[learned]
    estimate = table_estimate(table.take(learned), prices, config.workers.models_dir, seen)
    scored = np.isfinite(table.score[learned])
    spent, taken = (np.nan_to_num(x[learned])[scored] for x in (table.cost_usd, 1000 * table.latency_s))
    source = f"median of {int(scored.sum())} outcomes of {table.source}"
    examples = []  # each query as one step; what workers achieve on it is for the estimate to say
    for row in learned.tolist():
        text, kind = table.texts[row], table.task_types[row]
        known = kind if kind in config.planner.task_types else ""
        step = Subtask(id="1", instruction=text, task_type=known, span=(0, len(text)))
        about = {"task_id": table.ids[row], "suite": table.source, "split": parts[row]}
        examples.append(TrainingExample(instruction=text, workflow=Workflow([step]), **about))
    save_training_data(
        output,
        examples,
        config,
        counts={part: counts[part] for part in ("train", "validation")},
        dropped=dict(dropped),
        reference=typical(zip(spent.tolist(), taken.tolist(), strict=True), source),
    )
    write_estimate(estimate_path(output), estimate)
    if recorded is not None and table.replies is not None:
        write_tasks(_beside(output, _TASKS), _tasks(table, parts, tasks))
    given = [
        (worker, text.strip())
        for text, replies in zip(table.texts, table.replies or (), strict=table.replies is not None)
        for worker, reply in zip(table.workers, replies, strict=True)
        if reply is not None
    ]
    repeated = len(given) - len(set(given))
    dropped["a reply to a query that its worker has replied to under another id: the first is replayed"] = repeated
    outcomes = 0 if estimate is None else int(np.isfinite(table.score[learned]).sum())
    return PreparedTable(
        {part: counts[part] for part in PARTS},
        outcomes,
        len(set(given)),
        recorded,
        {reason: count for reason, count in dropped.items() if count},
        unpriced,
    )


_OUTCOMES, _TASKS, _POOL = "outcomes.jsonl.gz", "tasks.jsonl", "yaml"
"""What the recorded workers replay, the tasks that the replies answer, and the configuration of the workers."""


def _beside(output: Path, ending: str) -> Path:
    return output.with_name(f"{output.stem}.{ending}")


def _recorded_config(table: OutcomeTable, learned: OutcomeTable, config: Config, output: Path, path: Path) -> Config:
    """The configuration with the table's workers for its pool; writes it, and what its workers replay.

    Args:
        learned: the table without the queries for tests, which gives the workers' prices where it says what they cost.
    """
    outcomes = _beside(output, _OUTCOMES)
    write_outcomes(outcomes, table)
    pool = {
        worker: {
            "kind": "recorded",
            "recorded": outcomes.name,
            "card": table.cards.get(worker) or worker,
            "price_per_call_usd": float(price),
        }
        for worker, price in zip(table.workers, _prices(table, learned), strict=True)
    }
    raw = config.model_dump(mode="json", exclude_defaults=True)
    types = sorted(set(table.task_types) - {""}) or [_NO_TYPE]
    kept = {key: value for key, value in raw["workers"].items() if key == "cache_dir"}
    raw["workers"] = {"pool": pool, **kept}
    raw["planner"] = raw.get("planner", {}) | {"kind": "whole", "task_types": types}
    tasks = {key: value for key, value in raw.get("tasks", {}).items() if key not in ("suite", "path", "scorer")}
    if table.replies is not None:
        tasks |= {"suite": "written", "path": _beside(output, _TASKS).name}
    raw["tasks"] = tasks
    write_text(path, as_yaml(raw))
    return Config.model_validate(raw, context={"folder": path.parent})


def _tasks(table: OutcomeTable, parts: Sequence[Part], known: Sequence[Task] | None) -> list[Task]:
    """The queries as tasks: known ones, else scored as the table scored the reply."""
    assert table.replies is not None
    if known is not None:
        return [task.model_copy(update={"split": part}) for task, part in zip(known, parts, strict=True)]
    made = []
    for row, part in enumerate(parts):
        judged = [
            (reply, float(score))
            for reply, score in zip(table.replies[row], table.score[row], strict=True)
            if reply is not None and np.isfinite(score)
        ]
        if scores := scores_by_answer(judged):
            made.append(
                Task(
                    task_id=table.ids[row],
                    suite=table.source,
                    split=part,
                    instruct_prompt=table.texts[row],
                    scorer=RECORDED,
                    details={RECORDED_SCORES: scores},
                )
            )
    return made


def _prices(table: OutcomeTable, learned: OutcomeTable) -> Values:
    """(workers,) mean costs; of a worker whose cost nobody measured the mean of the others, and 0 without any cost."""
    own = nan_mean(learned.cost_usd)
    prices = np.where(np.isnan(own), nan_mean(table.cost_usd), own)
    measured = prices[np.isfinite(prices)]
    return np.where(np.isnan(prices), measured.mean() if measured.size else 0.0, prices)
