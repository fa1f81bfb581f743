"""Whom to ask for another turn where the environment says what is right, on InterCode's recorded turns.

    python -m benchmarks.turns DATA [--seeds 5] [--json docs/results/turns.json]

*Checked*: a run stops once a turn's reward is 1, as in InterCode's own protocol, and nothing else of rewards is seen.
A policy asks the row for a turn that has most probability of being right for its price, within one turn or several, and
stops where no row is worth its price. It is learned by boosted trees from prefixes of the recorded turns: how many each
row took and what it showed last, the database and the question's words. Beside it stand cascades over turns, fixed
sequences of rows and numbers of turns, fitted on the same questions, a coin flipped between two so that they cost the
same. Five folds and a fifth of the questions by their hash, five seeds. DATA holds `intercode/{sql,bash}.jsonl.gz`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.answers import PRICES
from orchestai.config import load_config
from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.outcome_table import Rows, Values
from orchestai.estimate.success import group_folds
from orchestai.evaluation.tables.answers import AnswersEvaluation
from orchestai.planner.slots.text_encoder import query_features
from orchestai.storage import artifacts

_UNASKED, _ERROR, _EMPTY, _SHOWN, _LOOKED = range(5)
_MOST_TURNS, _HORIZONS, _WORDS = 12, (1, 2, 4, 10), 8
_LEVELS = (0, 1, 2, 3, 4, 6, 10)
"""Numbers of turns at which a cascade goes on to another row."""
_USD = (0.5, 1, 2, 3, 5, 8, 12, 20, 35, 60, 120, 250)
"""What a right answer is worth, in US dollars per 1,000: a policy or a cascade for each."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Turns of rows on questions.

    Attributes:
        names: of the rows.
        turns: (questions, rows) how many were recorded.
        right: (questions, rows) the turn that was right, from 1, or 99.
        cost: (questions, rows, 1 + turns) US dollars of all turns so far.
        shown: (questions, rows, 1 + turns) kind of what the last turn showed.
        known: (questions, further) what is known of a question.
    """

    names: list[str]
    questions: list[str]
    turns: Rows
    right: Rows
    cost: Values
    shown: Rows
    known: Values

    def take(self, rows: Rows) -> Recorded:
        own = (values[rows] for values in (self.turns, self.right, self.cost, self.shown, self.known))
        return Recorded(self.names, [self.questions[row] for row in rows], *own)


def read_turns(path: Path) -> Recorded:
    """A token is four characters; see `benchmarks.answers.intercode`."""
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    names = sorted({name for line in lines for name in line["rows"]})
    shape = len(lines), len(names)
    turns, right = np.zeros(shape, dtype=int), np.full(shape, 99)
    cost, shown = np.zeros((*shape, 1 + _MOST_TURNS)), np.zeros((*shape, 1 + _MOST_TURNS), dtype=int)
    for place, line in enumerate(lines):
        for row, name in enumerate(names):
            read, written = PRICES[name.split("/")[0]]
            told = 600 + len(line["query"]) + len(json.dumps(line.get("tables", ""))) * ("handicap" in name)
            for turn, own in enumerate(line["rows"].get(name, ())[:_MOST_TURNS], start=1):
                action, seen = own["action"][:2000], (own["observation"] or "")[:2000]
                cost[place, row, turn:] += (told * read + len(action) * written) / 4e6
                told += len(action) + len(seen)
                shown[place, row, turn] = _kind(action.lower(), seen)
                turns[place, row] = turn
                if own["reward"] == 1:
                    right[place, row] = turn
                    break
    settings = [line.get("db", line.get("file_system")) for line in lines]
    numbers = np.unique(settings, return_inverse=True)[1]
    texts = [line["query"] for line in lines]
    known = np.stack([numbers, [len(text) for text in texts], [len(str(line.get("tables"))) for line in lines]], axis=1)
    features = query_features(texts, load_config().workers.models_dir)
    axes = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)[2][:_WORDS]
    questions = [f"{text} ({setting})" for text, setting in zip(texts, settings, strict=True)]
    return Recorded(names, questions, turns, right, cost, shown, np.hstack([known, features @ axes.T]))


def _kind(action: str, seen: str) -> int:
    if "error" in seen.lower() or "not found" in seen:
        return _ERROR
    if not seen.strip("[] \n"):
        return _EMPTY
    looks = "information_schema" in action or action.removeprefix("execute[").startswith(("show", "desc", "ls"))
    return _LOOKED if looks else _SHOWN


def state_features(recorded: Recorded, place: Rows, taken: Rows) -> Values:
    """(states, rows, width) what is known where `taken` (states, rows) turns were taken on questions `place`."""
    states, rows = taken.shape
    shown = recorded.shown[place[:, None], np.arange(rows), taken]
    whole = np.hstack(
        [taken, shown, recorded.known[place], *((shown == kind).sum(1, keepdims=True) for kind in range(1, 5))]
    )
    own = np.stack([np.tile(np.arange(rows), (states, 1)), taken, shown], axis=2)
    return np.concatenate([own, np.repeat(whole[:, None], rows, axis=1)], axis=2)


def prefixes(recorded: Recorded, rng: np.random.Generator, draws: int) -> Iterator[tuple[Rows, Rows]]:
    """Random states of all questions that are not solved yet, cheap rows having taken more turns."""
    questions, rows = recorded.turns.shape
    usual = recorded.cost[:, :, 1].mean(axis=0)
    most = np.minimum(recorded.turns, recorded.right - 1)
    for _ in range(draws):
        asked = rng.random((questions, rows)) < np.clip(rng.random((questions, 1)) * usual.min() / usual * 20, 0, 0.9)
        taken = np.where(asked, np.minimum(rng.geometric(0.3, (questions, rows)), most), 0)
        yield np.arange(questions), taken


class Policy:
    """The probability that a row is right within some turns, and what these cost."""

    def __init__(self, recorded: Recorded, seed: int) -> None:
        rng = np.random.default_rng(seed)
        inputs, targets = [], []
        for place, taken in prefixes(recorded, rng, 12):
            features, going = state_features(recorded, place, taken), taken < recorded.turns
            horizon = rng.choice(_HORIZONS, taken.shape)
            inputs.append(np.dstack([features, horizon])[going])
            targets.append((recorded.right <= taken + horizon)[going])
        self.model = HistGradientBoostingClassifier(
            max_iter=120, learning_rate=0.08, max_leaf_nodes=15, l2_regularization=5.0, random_state=seed
        ).fit(np.concatenate(inputs), np.concatenate(targets))
        step = np.diff(recorded.cost, axis=2)
        happened = np.arange(1, 1 + _MOST_TURNS) <= recorded.turns[:, :, None]
        mean = (step * happened).sum(axis=0) / np.maximum(happened.sum(axis=0), 1)
        self.price = np.maximum.accumulate(np.where(happened.any(axis=0), mean, 0), axis=1)

    def value(self, recorded: Recorded, place: Rows, taken: Rows) -> Values:
        """(states, rows) most probability of being right for a dollar, of any number of turns."""
        features, best = state_features(recorded, place, taken), np.zeros(taken.shape)
        rows = np.arange(taken.shape[1])
        for horizon in _HORIZONS:
            flat = np.dstack([features, np.full(taken.shape, horizon)]).reshape(taken.size, -1)
            chance = self.model.predict_proba(flat)[:, 1].reshape(taken.shape)
            price = np.zeros(taken.shape)
            for turn in range(horizon):
                going = self.price[rows, np.minimum(taken + turn, _MOST_TURNS - 1)]
                price += going * (1 - chance * turn / horizon)
            best = np.maximum(best, chance / np.maximum(price, 1e-9))
        return np.where(taken < recorded.turns[place], best, 0)


def follow(policy: Policy, recorded: Recorded) -> Values:
    """(worths, 2, questions) success and US dollars, stopped where nothing is worth its price; none stops the first."""
    questions, rows = recorded.turns.shape
    taken, solved, spent = np.zeros((questions, rows), dtype=int), np.zeros(questions, dtype=bool), np.zeros(questions)
    found, going = np.zeros((len(_USD), 2, questions)), np.ones((len(_USD), questions), dtype=bool)
    while (left := np.flatnonzero(going.any(axis=0) & ~solved)).size:
        value = policy.value(recorded, left, taken[left])
        row, best = value.argmax(axis=1), value.max(axis=1)
        going[:, left] &= (best * np.array(_USD)[:, None] / 1000 >= 1) & (best > 0)
        asked = going[:, left].any(axis=0)
        left, row = left[asked], row[asked]
        before = recorded.cost[left, row, taken[left, row]]
        taken[left, row] += 1
        spent[left] += recorded.cost[left, row, taken[left, row]] - before
        solved[left] = recorded.right[left, row] == taken[left, row]
        for worth in range(len(_USD)):
            own = left[going[worth, left]]
            found[worth, 0, own], found[worth, 1, own] = solved[own], spent[own]
    return found


def run_cascade(recorded: Recorded, cascade: tuple[tuple[int, int], ...]) -> Values:
    """(2, questions) success and US dollars of rows that take turns up to a number, one after the other."""
    questions = np.arange(len(recorded.right))
    solved, spent, taken = np.zeros(len(questions), dtype=bool), np.zeros(len(questions)), dict[int, int]()
    for row, most in cascade:
        start = np.minimum(taken.get(row, 0), recorded.turns[:, row])
        stop = np.minimum(np.minimum(most, recorded.turns[:, row]), recorded.right[:, row])
        own = recorded.cost[questions, row, np.maximum(stop, start)] - recorded.cost[questions, row, start]
        spent += np.where(solved, 0, own)
        solved |= recorded.right[:, row] <= most
        taken[row] = most
    return np.stack([solved, spent])


def fit_cascade(recorded: Recorded, usd: float, width: int = 12, depth: int = 7) -> tuple[tuple[int, int], ...]:
    """The cascade of most success less its price, found by a beam."""
    questions, rows = np.arange(len(recorded.right))[:, None], np.arange(len(recorded.names))
    ends = [np.minimum(np.minimum(most, recorded.turns), recorded.right) for most in _LEVELS]
    cost = np.stack([recorded.cost[questions, rows, end] for end in ends])
    solves = np.stack([recorded.right <= most for most in _LEVELS])
    none = np.zeros(len(questions)), np.zeros(len(questions), dtype=bool), np.zeros(len(rows), dtype=int)
    beam: list[tuple[float, tuple[tuple[int, int], ...], Any]] = [(0.0, (), none)]
    best = beam[0]
    for _ in range(depth):
        longer = []
        for _, cascade, (spent, solved, level) in beam:
            more = np.where(solved[:, None], 0, cost - cost[level, :, rows].T)
            worth = (solved[:, None] | solves).mean(axis=1) - 1000 / usd * (spent[:, None] + more).mean(axis=1)
            worth[np.arange(len(_LEVELS))[:, None] <= level] = -np.inf
            for place in np.argsort(-worth, axis=None)[:width]:
                to, row = np.unravel_index(place, worth.shape)
                longer.append((float(worth[to, row]), (*cascade, (int(row), _LEVELS[to])), (spent, solved, level)))
        longer = sorted(longer, key=lambda one: -one[0])[:width]
        beam = []
        for worth_of, cascade, (spent, solved, level) in longer:
            row, to = cascade[-1][0], _LEVELS.index(cascade[-1][1])
            more = np.where(solved, 0, cost[to, :, row] - cost[level[row], :, row])
            reached = np.where(rows == row, to, level)
            beam.append((worth_of, cascade, (spent + more, solved | solves[to, :, row], reached)))
        if beam[0][0] <= best[0]:
            break
        best = beam[0]
    return best[1]


def at_cost(rows: Values, usd: float) -> Values:
    """(2, questions) the coin flip between two neighbors, of (settings, 2, questions), that costs so much."""
    order = np.argsort(rows[:, 1].mean(axis=1))
    for low, high in pairwise(order):
        cheap, dear = rows[low, 1].mean(), rows[high, 1].mean()
        if cheap <= usd <= dear and dear > cheap:
            share = (usd - cheap) / (dear - cheap)
            return np.asarray((1 - share) * rows[low] + share * rows[high])
    return np.asarray(rows[order[0] if usd < rows[order[0], 1].mean() else order[-1]])


def evaluate(recorded: Recorded, seeds: int, held_out: bool) -> dict[str, Any]:
    """Both, by worth of a right answer, with paired differences."""
    groups = near_duplicate_groups(recorded.questions)
    apart = np.array([int(sha256(text.encode()).hexdigest()[:16], 16) % 5 == 0 for text in recorded.questions])
    tested = apart if held_out else np.ones(len(groups), dtype=bool)
    found = {
        name: np.zeros((len(_USD), 4, seeds, len(groups))) for name in ("policy", "cascade", "cascade at its cost")
    }
    for seed in range(seeds):
        folds = np.where(apart, 0, -1) if held_out else group_folds(groups, seed)
        for fold in np.unique(folds[folds >= 0]):
            test = np.flatnonzero(folds == fold)
            train = np.flatnonzero(~np.isin(groups, groups[test]))
            known, asked = recorded.take(train), recorded.take(test)
            found["policy"][:, :2, seed, test] = follow(Policy(known, seed), asked)
            if not held_out or not seed:
                own = [run_cascade(asked, fit_cascade(known, usd)) for usd in _USD]
                found["cascade"][:, :2, slice(None) if held_out else seed, test] = (
                    np.array(own)[:, :, None] if held_out else np.array(own)
                )
            print(f"seed {seed}, fold {fold}", flush=True)
        for worth in range(len(_USD)):
            usd = found["policy"][worth, 1, seed, tested].mean()
            mixed = at_cost(found["cascade"][:, :2, seed][:, :, tested], usd)
            found["cascade at its cost"][worth, :2, seed, tested] = mixed.T
    report: dict[str, Any] = {
        "questions": int(tested.sum()),
        "any row right": float((recorded.right < 99).any(1)[tested].mean()),
    }
    for worth, usd in enumerate(_USD):
        decisions = {name: own[worth][:, :, tested] for name, own in found.items()}
        ids = [sha256(text.encode()).hexdigest()[:16] for text in np.array(recorded.questions)[tested]]
        own = AnswersEvaluation("", "", decisions, ids, groups[tested])
        gap = own.means["policy"][0] - own.means["cascade at its cost"][0]
        report[f"worth {usd}"] = {
            name: {"success": own.interval(one[0]).to_dict(), "usd_per_1000": 1000 * float(one[1].mean())}
            for name, one in own.means.items()
        } | {"policy - cascade": own.interval(gap).to_dict()}
        print(
            usd,
            {
                k: (round(v["success"]["mean"], 4), round(v["usd_per_1000"], 3))
                for k, v in report[f"worth {usd}"].items()
                if "success" in v
            },
            report[f"worth {usd}"]["policy - cascade"],
            flush=True,
        )
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("docs/results/turns.json"))
    args = parser.parse_args()
    report = {}
    for name in ("sql", "bash"):
        recorded = read_turns(args.data / f"intercode/{name}.jsonl.gz")
        for held_out in (False, True):
            report[name + ", a fifth held out by hash" * held_out] = evaluate(recorded, args.seeds, held_out)
    artifacts.write_json(args.json, report)


if __name__ == "__main__":
    main()
