"""What `orchestai fit` would serve of pools that it does not know, on recorded outcomes that nobody here wrote.

    python -m benchmarks.strangers DATA [--json docs/results/strangers.json] [--draws 10] [--pools 80]

Verdicts on 30 tasks, on 100, and on half of a table choose what is served, by `orchestai.evaluation.fitting`;
the other tasks measure it. Tables of more than 14 workers give a pool of seven, drawn anew each time. `bfcl pools` are
80 such pools at 30 and 100 tasks. Success is in points above the best single worker chosen on the same tasks, `fixed`
is the best of single workers and (from 100 tasks on) fixed cascades at no more than its price, the static mix costs
what the served choice costs, and `knn` and `prior` (by type) are always followed. `covered` says in how many draws the
interval of the verdict's gain holds what came true, of those of 30 tasks in which not the best single worker is
served. DATA is as for `benchmarks.answers`, and also holds `routellm_mmlu/mmlu.jsonl.gz`. Without it nothing is done.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.answers import ANSWERS, RUNS
from orchestai.cli.options import judged_replies, read_table
from orchestai.config import load_config
from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.outcome_table import OutcomeTable, Rows, Values
from orchestai.estimate.answers import SeenAnswers, Verdicts, Way, best_of, fixed_ways, tried
from orchestai.evaluation import fitting
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.evaluation.tables.answers import see_answers, static_mix
from orchestai.evaluation.tables.estimates import Features, Fold, means_by_task
from orchestai.evaluation.tables.evaluate import usable
from orchestai.planner.forecast import nearest_workers
from orchestai.planner.slots.text_encoder import query_features
from orchestai.storage import artifacts

TABLES = ("bfcl", "gsm8k", "math", "intercode-sql", "mbpp replies", "routerbench", "mmlu")
POOLS = "bfcl pools"
SIZES = (30, 100)
_WIDTH, _MANY = 7, 14
_MOST_ROWS = 2000
"""Of a table; of more, so many drawn with a fixed seed."""


class Source(NamedTuple):
    """A table with what is seen of its answers, features of its texts, and numbers of near-duplicates."""

    table: OutcomeTable
    answers: SeenAnswers
    features: Features
    groups: Rows

    def pool(self, workers: Rows) -> Source:
        """With these workers alone."""
        seen = replace(self.answers, same=self.answers.same[:, workers], shown=self.answers.shown[:, workers])
        return self._replace(table=self.table.only([self.table.workers[one] for one in workers]), answers=seen)


def read(data: Path, name: str) -> Source:
    """One of `TABLES`, without rows that lack an outcome."""
    settings = ["tasks.suite=mbpp", f"tasks.path={data / 'mbpp/sanitized-mbpp.json.gz'}"]
    config = load_config(overrides=settings)
    if name in ("routerbench", "mmlu"):
        file = "routerbench/routerbench.jsonl.gz" if name == "routerbench" else "routellm_mmlu/mmlu.jsonl.gz"
        table = read_table([data / file], "routerbench" if name == "routerbench" else "routellm", None)
        if not table.priced:  # 24.7 and .24 USD per million tokens, as RouteLLM has them; a thousand tokens each
            dear = np.array(["gpt-4" in worker.lower() for worker in table.workers])
            table = replace(table, cost_usd=np.where(dear, 2.47e-2, 2.4e-4) * np.ones(table.score.shape))
        width = len(table.workers)
        types, numbers = np.unique(table.task_types, return_inverse=True)
        each, kinds = np.tile(np.arange(width), (len(table), 1)), np.zeros((len(table), width), dtype=np.intp)
        answers = SeenAnswers(each, kinds, numbers, ("an answer",), tuple(types.tolist()))
    elif name == "mbpp replies":
        table = read_table([data / RUNS[name][0]], "routerbench", None)
        judged, _ = judged_replies(table, config, lambda _: None)
        table, answers = judged.table, judged.seen()
    else:
        table = read_table([data / RUNS[name][0]], f"benchmarks.answers:{RUNS[name][1]}", None)
        answers = see_answers(table, ANSWERS[RUNS[name][1]])
    rows = np.flatnonzero(usable(table).all(axis=1))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))
    table, answers = table.take(rows), answers.take(rows)
    features = query_features(table.texts, config.workers.models_dir)
    return Source(table, answers, features, near_duplicate_groups(table.texts, types=table.task_types))


def draw(source: Source, size: int, seed: int, covered: bool) -> dict[str, list[float]]:
    """By row, success and cost in USD per 1,000 on the tasks that were not learned from; and facts of the choice."""
    table = source.table
    mixed = np.random.default_rng(seed).permutation(len(table))
    known, others = mixed[:size], mixed[size:]
    others = others[~np.isin(source.groups[others], source.groups[known])]
    learned, seen = Verdicts(table.score[known], table.cost_usd[known]), source.answers.take(known)
    truth, asked = Verdicts(table.score[others], table.cost_usd[others]), source.answers.take(others)
    rows: dict[str, tuple[Values, Values]] = {}
    kinds = dict[str, str]()
    near = source.features[known]
    candidates = fitting.candidates(seen, learned, near, dearer=True)
    for row, dearer in ("served", False), ("served at any price", True):
        chosen = fitting.pick(candidates, dearer=dearer)
        kinds[row] = chosen.kind
        rows[row] = fitting.serve(chosen, asked, truth, (near, learned), source.features[others])
        if not dearer:
            served, single, cost = chosen, chosen.best, float(chosen.choice.cost_usd.mean())
    rows["single"] = single.way.decide(asked).outcome(truth)
    singles = list(tried((Way(np.array([one])) for one in range(len(table.workers))), seen, learned))
    price = float(single.cost_usd.mean())
    cascades = size >= fitting.FEWEST_FOR_CASCADES
    fixed = list(tried(fixed_ways(seen, learned, price), seen, learned)) if cascades else []
    best = best_of(iter([single, *fixed]), price)
    assert best is not None
    rows["fixed"] = best.way.decide(asked).outcome(truth)
    first, second = static_mix(singles, cost, asked, truth)
    rows["static mix"] = first, second
    places = np.arange(len(others))
    prior = means_by_task(Fold(table, known, source.features, source.groups, seed), table.score)[others].argmax(axis=1)
    for row, workers in (
        ("knn", nearest_workers(source.features[others], near, learned.right, learned.cost_usd)),
        ("prior", prior),
    ):
        rows[row] = truth.right[places, workers], truth.cost_usd[places, workers]
    right = truth.right.max(axis=1)
    rows["oracle"] = right, np.where(truth.right >= right[:, None], truth.cost_usd, np.inf).min(axis=1)
    found = {row: [float(own.mean()), float(1000 * usd.mean())] for row, (own, usd) in rows.items()}
    if covered:
        evidence = fitting.cross_validate(seen, learned, near, source.groups[known])
        assert evidence is not None
        gain, came = evidence.gain(served), found["served"][0] - found["single"][0]
        told = served.kind != fitting.SINGLE
        found["covered"] = [float(gain.low <= came <= gain.high) if told else np.nan, gain.high - gain.low, float(told)]
    found["kinds"] = [float(kinds["served"] != fitting.SINGLE), float(kinds["served at any price"] != fitting.SINGLE)]
    return found


def figures(draws: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Means over the draws, and points above the best single worker, with the interval over draws and the worst."""
    own = {row: np.array([one[row] for one in draws]) for row in draws[0]}
    facts: dict[str, Any] = {"kinds": own.pop("kinds").mean(axis=0).tolist()}
    if "covered" in own:
        held = own.pop("covered")
        told = held[held[:, 2] > 0]
        facts["covered"] = {"draws": len(told), "held": int(told[:, 0].sum()), "width": float(told[:, 1].sum())}
        facts["covered"]["width"] /= max(len(told), 1)
    made: dict[str, Any] = {
        row: {"success": float(cells[:, 0].mean()), "usd_per_1000": float(cells[:, 1].mean())}
        for row, cells in own.items()
    }
    for row in set(own) - {"single"}:
        points = 100 * (own[row][:, 0] - own["single"][:, 0])
        share = np.median(own[row][:, 1] / np.maximum(own["single"][:, 1], 1e-12))
        made[row] |= {"gain": bootstrap_mean(points).to_dict(), "worst": float(points.min()), "price": float(share)}
    return made | {"draws": len(draws), "above_fixed": _above(own), **facts}


def _above(own: dict[str, Values]) -> dict[str, Any]:
    points = 100 * (own["served"][:, 0] - own["fixed"][:, 0])
    return bootstrap_mean(points).to_dict() | {"worst": float(points.min())}


def measured(data: Path, draws: int, pools: int) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, size and figures of each part."""
    for name in TABLES:
        source = read(data, name)
        width = len(source.table.workers)
        some = width > _MANY
        half = len(source.table) // 2
        parts = [(name, size, draws) for size in (30, *((100,) if len(source.table) >= 200 else ()), half)]
        parts += [(POOLS, size, pools) for size in SIZES if name == "bfcl"]
        for title, size, count in parts:
            found = []
            for seed in range(count):
                workers = np.sort(np.random.default_rng(seed).choice(width, _WIDTH, replace=False))
                own = source.pool(workers) if some else source
                found.append(draw(own, size, seed, covered=title != POOLS and size == SIZES[0]))
            yield title, size, figures(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--pools", type=int, default=80)
    parser.add_argument("--json", type=Path, default=Path("docs/results/strangers.json"))
    args = parser.parse_args()
    if not args.data.exists():
        print(f"skipped: no {args.data}")
        return
    columns = ("served", "any price", "fixed", "mix", "knn", "prior", "oracle")
    printed = Table("", "tasks", "single", *columns, "worst", "price", "covered", title="points above the best single")
    merged: dict[str, Any] = {}
    for name, size, own in measured(args.data, args.draws, args.pools):
        merged.setdefault(name, {})[str(size)] = own
        names = ("served", "served at any price", "fixed", "static mix", "knn", "prior", "oracle")
        cells = [f"{own[row]['gain']['mean']:+.1f}" for row in names]
        worst = f"{own['served']['worst']:+.1f} {own['served at any price']['worst']:+.1f}"
        covered = "{held}/{draws}".format(**own["covered"]) if "covered" in own else ""
        price = f"{own['served']['price']:.2f} {own['served at any price']['price']:.1f}"
        line = [name, str(size), f"{own['single']['success']:.3f}", *cells, worst, price, covered]
        printed.add_row(*line)
        print(f"{time.process_time():.0f} s", *line, flush=True)
        artifacts.write_json(args.json, merged)
    Console(width=150).print(printed)


if __name__ == "__main__":
    main()
