"""Whether live runs judge answers as the tables say, on recorded workers.

    python -m benchmarks.live_answers DATA [--json docs/results/live_answers.json]

Half of the questions, by hash, go through `prepare --from-table` and phase 1; the others are asked of the recorded
workers through `Orchestrator.run` under a contract. Beside these runs stand the replay of the same decisions on the
table, and the single workers that were best on the first half: of all, and of those at no more than the runs' cost.
DATA is as for `benchmarks.answers`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import RUNS
from orchestai import Contract, Orchestrator
from orchestai.config import load_config
from orchestai.data.outcome_table import OutcomeTable
from orchestai.data.prepare_table import prepare_table
from orchestai.data.table_readers import read_outcome_table
from orchestai.estimate.answers import SeenAnswers, Verdicts
from orchestai.estimate.calibration import expected_calibration_error
from orchestai.estimate.comparators import COMPARATORS
from orchestai.estimate.pool_estimate import kinds_of
from orchestai.evaluation.tables.evaluate import usable
from orchestai.execution.contract.trimming import ContractError
from orchestai.planner.slots.text_encoder import query_features
from orchestai.storage import artifacts
from orchestai.training.supervised.train import train

LIVE = {
    "gsm8k": Contract(max_cost_usd=1),
    "math": Contract(max_cost_usd=1, min_success=0.65),
    "bfcl": Contract(max_cost_usd=1),
}
"""Name of a run -> contract. No single worker reaches the second one."""


async def serve(table: OutcomeTable, folder: Path, contract: Contract) -> dict[str, Any]:
    """What judged runs under a contract gave on the questions that nothing learned from."""
    settings = ["tasks.test_fraction=0.5", "planner.kind=whole"]
    written = prepare_table(table, load_config(Path("config.yaml"), settings), folder / "data.json")
    assert written.config is not None
    config = load_config(written.config, [])
    train(config, data=folder / "data.json", output_dir=folder)
    async with Orchestrator.open(str(folder / "phase1_best.pth"), config, log=None) as orchestrator:
        forecaster = orchestrator.planner_named(None).forecaster
        assert forecaster is not None
        assert forecaster.estimate.judge is not None
        assert table.replies is not None
        learned = np.flatnonzero(np.isin(table.texts, forecaster.estimate.known.texts))
        tested = np.setdiff1d(np.arange(len(table)), learned)
        live = {name: np.zeros(len(tested)) for name in ("success", "usd", "probability")}
        refused: list[int] = []
        for place, row in enumerate(tested.tolist()):
            try:
                answered = await orchestrator.run(table.texts[row], contract, answer="text")
            except ContractError:  # nobody knows what to expect of a question like no other
                refused.append(place)
                continue
            receipt = answered.receipt
            worker = table.workers.index(receipt.nodes[0].answered_by)
            assert (table.replies[row][worker] or "").strip() == answered.answer.strip()
            sure = np.nan if receipt.success is None else receipt.success
            for name, value in zip(live, (table.score[row, worker], receipt.spent_usd, sure), strict=True):
                live[name][place] = value
    live = {name: np.delete(own, refused) for name, own in live.items()}
    tested = np.delete(tested, refused)
    judge, known = forecaster.estimate.judge, forecaster.estimate.known
    features = query_features([table.texts[row] for row in tested], config.workers.models_dir)
    kinds = forecaster.estimate.kinds
    types = kinds_of(features, known.embeddings, kinds) if kinds else judge.task_types * len(tested)
    part = table.take(tested)
    assert part.replies is not None
    seen = SeenAnswers.of(part.texts, types, part.replies, COMPARATORS[judge.comparator])
    shown = np.array([judge.kinds.index(kind) if kind in judge.kinds else len(judge.kinds) for kind in seen.kinds])
    numbers = np.array([judge.task_types.index(seen.task_types[number]) for number in seen.types])
    least = contract.min_success
    number = judge.usual if least is None else int((judge.success >= least).argmax())
    way, truth = judge.ways[number], Verdicts(part.score, part.cost_usd)
    success, usd = way.decide(replace(seen, shown=shown[seen.shown], types=numbers)).outcome(truth)
    good, price = table.score[learned].mean(axis=0), table.cost_usd[learned].mean(axis=0)
    cheap = np.where(price <= judge.asked[number] @ price, good, -1)
    rows = {"judged, live": (live["success"], live["usd"]), "judged, replay": (success, usd)}
    for name, worker in ("best single", int(good.argmax())), ("best single at its cost", int(cheap.argmax())):
        rows[name] = part.score[:, worker], part.cost_usd[:, worker]
    draws = np.random.default_rng(0).integers(len(tested), size=(10_000, len(tested)))

    def mean(values: Any) -> list[float]:
        """With the 95 % bootstrap interval."""
        return [
            round(float(one), 4) for one in (values.mean(), *np.quantile(values[draws].mean(axis=1), (0.025, 0.975)))
        ]

    known_sure = live["probability"][np.isfinite(live["probability"])]
    exact = np.random.default_rng(0).random((200, len(known_sure))) < known_sure
    return {
        "questions": len(tested),
        "refused": len(refused),
        "way": f"{way.stop}: {' > '.join(table.workers[worker] for worker in way.order)}",
        "comparator": judge.comparator,
        "rows": {name: {"success": mean(own), "usd_per_1000": mean(1000 * paid)} for name, (own, paid) in rows.items()},
        "live - row": {name: mean(live["success"] - own) for name, (own, _) in rows.items() if name != "judged, live"},
        "probability": {
            "known": len(known_sure),
            "ece": expected_calibration_error(live["probability"], live["success"], 10),
            "by_chance": float(np.mean([expected_calibration_error(known_sure, one, 10) for one in exact])),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/live_answers"))
    parser.add_argument("--json", type=Path, default=Path("docs/results/live_answers.json"))
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for name, contract in LIVE.items():
        file, reader, *_ = RUNS[name]
        table = read_outcome_table([args.data / file], f"benchmarks.answers:{reader}")
        table = table.take(np.flatnonzero(usable(table).all(axis=1)))
        found[name] = asyncio.run(serve(table, args.output / name, contract))
        print(name, json.dumps(found[name], indent=1), flush=True)
    artifacts.write_json(args.json, found)


if __name__ == "__main__":
    main()
