"""How well a planner links the steps of plans that others wrote, beside what needs no learning.

    python benchmarks/plans.py DATA [--seeds 3] [--output runs/plans] [--json docs/results/plans.json] [KEY=VALUE]...

DATA holds the folders `worfbench` and `asynchow` with the published files. All of them become one training file (steps
given; AsyncHow once without and once with its ordering constraints stated); tasks are split by their words, so that no
task is on two sides, whatever its source. One planner is trained per seed on all sources together and judged on the
tasks that were kept for tests. Scores of a plan are means over seeds, and intervals are bootstrapped over plans. What
is finished in the output folder is kept: interrupt and repeat the command to continue.
"""

from __future__ import annotations

import argparse
import math
import resource
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from orchestai import artefacts
from orchestai.config import Config, load_config
from orchestai.evaluation.evaluate_plans import PlansEvaluation, evaluate_plans
from orchestai.evaluation.plan_scores import METRICS, SAME_STEP, PlanScore, sentence_embedder
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.encoder import MINILM, open_encoder
from orchestai.training.data_format import TrainingExample, load_training_data
from orchestai.training.phase1 import BEST
from orchestai.training.prepare_plans import prepare_plans
from orchestai.training.readers import READERS
from orchestai.training.supervised import train
from orchestai.workers.pool import worker_cards

SOURCES = (("asynchow", "asynchow"), ("asynchow-stated", "asynchow"), ("worfbench", "worfbench"))
"""Readers, each with the folder that it reads."""
CONFIG = Path(__file__).resolve().parent.parent / "configs" / "plans.yaml"
DONE = "done.json"

console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("runs/plans"))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args()
    config = load_config(CONFIG, args.overrides)
    data = prepared(args.data, args.output, config)
    examples = load_training_data(data, config)
    embed = sentence_embedder(open_encoder(MINILM, 512))
    evaluations, seconds = [], []
    for seed in range(args.seeds):
        folder = args.output / f"seed{seed}"
        seconds.append(trained(config, seed, data, folder))
        planner = load_planner(folder / BEST, config, worker_cards(config.workers))
        evaluations.append(evaluate_plans(planner, examples, embed))
    evaluation = over_seeds(evaluations)
    console.print(evaluation.table())
    if args.json:
        figures = report(evaluation, evaluations, examples)
        facts = {
            "command": f"python benchmarks/plans.py DATA --seeds {args.seeds} --json docs/results/plans.json",
            "config": config.model_dump(mode="json"),
            "cpu_seconds_of_training": seconds,
            "data_fingerprint": artefacts.fingerprint([example.model_dump(mode="json") for example in examples]),
            "same_step": SAME_STEP,
            "versions": artefacts.versions(),
        }
        artefacts.write_json(args.json, {**figures, **facts})


def prepared(folder: Path, output: Path, config: Config) -> Path:
    """The training file of all sources; made once."""
    parts = []
    for name, of in SOURCES:
        parts.append(output / f"{name}.json")
        if not parts[-1].exists():
            console.print(prepare_plans(READERS[name], [folder / of], config, parts[-1], given=True).table())
    whole = output / "plans.json"
    if not whole.exists():
        prepare_plans(READERS["orchestai"], parts, config, whole, given=True)
    return whole


def trained(config: Config, seed: int, data: Path, folder: Path) -> float:
    """Train unless that is done; processor seconds that it took."""
    done = folder / DONE
    if done.exists():
        return float(done.read_text())
    settings = config.training.phase1_supervised.model_copy(update={"seed": seed})
    training = config.training.model_copy(update={"phase1_supervised": settings})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    train(
        config.model_copy(update={"training": training}),
        data=data,
        output_dir=folder,
        resume=(folder / "phase1_last.pth").exists(),
    )
    took = round(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before, 1)
    artefacts.write_json(done, took)
    return took


def over_seeds(evaluations: list[PlansEvaluation]) -> PlansEvaluation:
    """Each plan's scores as means over seeds; the floors have none."""
    first = evaluations[0]
    planner = []
    for scores in zip(*(evaluation.scores["planner"] for evaluation in evaluations), strict=True):
        rows = [asdict(score) for score in scores]
        planner.append(PlanScore(**{name: float(np.mean([row[name] for row in rows])) for name in METRICS}))
    return PlansEvaluation(first.sources, first.chains, {**first.scores, "planner": planner})


def report(
    evaluation: PlansEvaluation, seeds: list[PlansEvaluation], examples: list[TrainingExample]
) -> dict[str, Any]:
    """`asynchow.edge_f1_non_chain.mean`, `worfbench.SOURCE.edge_f1.mean`, ...; floors under `floors` of each source."""
    licences = {example.suite: example.licence for example in examples}
    rows = evaluation.to_dict()
    per_seed = [one.to_dict()["planner"] for one in seeds]
    found: dict[str, Any] = {"worfbench": {}}
    for source in evaluation.names:
        cell = {
            metric: interval | {"seeds": [one[source].get(metric, {}).get("mean", math.nan) for one in per_seed]}
            for metric, interval in rows["planner"][source].items()
        }
        cell["floors"] = {
            floor: {metric: interval["mean"] for metric, interval in rows[floor][source].items()}
            for floor in rows
            if floor != "planner"
        }
        cell["licence"] = licences[source]
        (found if source.startswith("asynchow") else found["worfbench"])[source] = cell
    return found


if __name__ == "__main__":
    main()
