"""What the DAG-validity loss does: phase 1 with `lambda_dag` 0 and 0.3, several seeds each.

    python benchmarks/training/lambda_dag.py [--examples 300] [--epochs 12] [--seeds 3] [--json FILE]

Learns the reference decompositions of the composition suite, with random workers, and reports on its test split:
validity of the likely edges before repair, the same of sampled edges (what phase 2 explores), and edge F1.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from orchestai.config import Config, Phase1Config, load_config
from orchestai.data.training_file import IndexedPlan, Vocabulary
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import TextEncoder, open_encoder
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from orchestai.training.supervised.dataset import PlanDataset
from orchestai.training.supervised.slot_planner import Imitation
from orchestai.types import SampleSpec
from orchestai.workers.pool import worker_cards

METRICS = ("raw_validity", "sampled_validity", "edge_f1", "edge_precision", "edge_recall", "exact_decomposition")
SAMPLES = 4
"""Sampled plans per test task."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--examples", type=int, default=300, help="training tasks")
    parser.add_argument("--tests", type=int, default=300, help="test tasks")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lambdas", type=float, nargs="+", default=[0.0, 0.3])
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    args = parser.parse_args()
    config = load_config(args.config)
    suite = load_suite("composition")
    encoder = open_encoder(config.planner.max_tokens)
    tests = suite.split("test")[: args.tests]
    runs = []
    for lambda_dag in args.lambdas:
        for seed in range(args.seeds):
            settings = Phase1Config(
                num_epochs=args.epochs, lambda_dag=lambda_dag, learning_rate=args.learning_rate, seed=seed
            )
            train = reference_plans(suite.split("train")[: args.examples], config, seed)
            test = reference_plans(tests, config, seed)
            figures = run(config, encoder, train, test, settings)
            runs.append({"lambda_dag": lambda_dag, "seed": seed, **{name: figures[name] for name in METRICS}})
    Console().print(table(runs, args.lambdas))
    if args.json:
        artifacts.write_json(args.json, {"examples": args.examples, "epochs": args.epochs, "runs": runs})


def reference_plans(tasks: Sequence[Task], config: Config, seed: int) -> PlanDataset:
    """The tasks' reference decompositions, each step with a random worker, where nobody knows whom to ask next."""
    rng = Random(seed)
    vocabulary = Vocabulary.of(config)
    plans = []
    for task in tasks:
        if task.reference is not None:
            plan, n = IndexedPlan.of(task.reference, vocabulary), len(task.reference)
            workers = tuple(rng.randrange(len(vocabulary.workers)) for _ in range(n))
            plans.append(plan.model_copy(update={"model_selections": workers, "fallback": (None,) * n}))
    return PlanDataset(
        [task.instruction for task in tasks],
        plans,
        max_subtasks=config.planner.max_subtasks,
        max_fallbacks=config.planner.max_fallbacks,
    )


def run(
    config: Config, encoder: TextEncoder, train: PlanDataset, test: PlanDataset, settings: Phase1Config
) -> dict[str, float]:
    """Figures of one run on `test` after its last epoch."""
    torch.manual_seed(settings.seed)
    planner = PlannerModel(config.planner, worker_cards(config.workers), encoder)
    imitation = Imitation(planner, train, test, settings)
    said = f"lambda_dag {settings.lambda_dag}, seed {settings.seed}"
    for _ in track(range(settings.num_epochs), description=said, console=Console(stderr=True)):
        figures = imitation.run_epoch()
    instructions = [instruction for instruction in test.instructions for _ in range(SAMPLES)]
    sample = SampleSpec(frozenset({"edge"}), 1.0, range(len(instructions)))
    plans = planner.plan_instructions(instructions, sample=sample)
    return figures | {"sampled_validity": statistics.mean(plan.raw_valid for plan in plans)}


def table(runs: Sequence[dict[str, float]], lambdas: Sequence[float]) -> Table:
    """Mean and standard deviation over seeds."""
    shown = Table("lambda_dag", *(name.replace("_", " ") for name in METRICS))
    for lambda_dag in lambdas:
        row = []
        for name in METRICS:
            values = [run[name] for run in runs if run["lambda_dag"] == lambda_dag]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            row.append(f"{statistics.mean(values):.4f} ± {spread:.4f}")
        shown.add_row(str(lambda_dag), *row)
    return shown


if __name__ == "__main__":
    main()
