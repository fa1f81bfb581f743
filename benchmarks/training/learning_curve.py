"""What more synthetic instructions bring: whole plans of styles never learned from, by instructions learned.

    python -m benchmarks.training.learning_curve [KEY=VALUE]... [--sizes 100 500 1000 2500] [--seeds 2]
        [--output runs/learning_curve] [--json docs/results/learning_curve.json]

A seed keeps two of the styles to learn from aside, the next ones in turn. Planners of the default configuration learn,
without the composition suite, from so many instructions of the others, drawn by lot, each number with those before it,
and from plans that exchange their phrases and surroundings, in proportion as `prepare` makes them. Fewer instructions
have more epochs; which one counts is chosen on the styles for validation. Then the two styles and those for tests are
planned: how often the number of steps is right, and how often the whole plan (`is_right`), with intervals over
instructions. Trainings that are finished in the output folder are kept.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from benchmarks.plans import trained
from rich.console import Console
from rich.table import Table

from orchestai.config import Config, load_config
from orchestai.data.augment import exchange_phrases
from orchestai.data.prepare_plans import read_plans
from orchestai.data.readers import READERS
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.evaluation.statistics import Interval, mean_over_groups
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.plan_metrics import is_right
from orchestai.storage import artifacts
from orchestai.tasks.instructions import NAME, STYLES, folder
from orchestai.training.supervised.run import BEST

KEPT_ASIDE = 2
MOST_EPOCHS = 30
Scores = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 1000, 2500])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/learning_curve"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args()
    config = load_config("config.yaml", args.overrides)
    examples, _ = read_plans(READERS[NAME], [folder()], config)
    found: dict[int, list[Scores]] = {size: [] for size in args.sizes}
    for seed in range(args.seeds):
        for size in args.sizes:
            found[size].append(scores_of(size, seed, examples, config, args.output))
            Console(width=100).print(table(found))
    if args.json:
        sizes = {
            size: {name: interval(of_seeds, name).to_dict() | {"each": means(of_seeds, name)} for name in of_seeds[0]}
            for size, of_seeds in found.items()
        }
        facts = {"seeds": args.seeds, "overrides": args.overrides, "versions": artifacts.versions()}
        artifacts.write_json(args.json, {"instructions": sizes} | facts)


def scores_of(size: int, seed: int, examples: Sequence[TrainingExample], config: Config, output: Path) -> Scores:
    """Train a planner on so many instructions, and judge it by styles that it did not learn from."""
    aside = STYLES["train"][seed * KEPT_ASIDE :][:KEPT_ASIDE]
    to_learn = [one for one in examples if one.split == "train"]
    others = [one for one in to_learn if _style(one) not in aside]
    chosen = random.Random(seed).sample(others, len(others))[:size]
    validation = [one for one in examples if one.split == "validation"]
    asked = [one for one in examples if one.split == "test" or _style(one) in aside]

    settings = config.training.phase1_supervised
    epochs = min(MOST_EPOCHS, round(settings.num_epochs * len(others) / size))
    settings = settings.model_copy(update={"num_epochs": epochs, "seed": seed})
    training = config.training.model_copy(update={"phase1_supervised": settings})
    config = config.model_copy(update={"training": training})
    exchanged = exchange_phrases(chosen, settings.mixture_augmentations * size // len(to_learn), seed=seed)
    data = output / f"{size}-{seed}.json"
    save_training_data(data, [*chosen, *exchanged, *validation], config)
    trained(config, data, output / f"{size}-{seed}")

    planner = load_planner(output / f"{size}-{seed}" / BEST, config.planner, config.workers)
    plans = [plan.workflow for plan in planner.plan_instructions([one.instruction for one in asked])]
    pairs = [(plan, one.workflow) for plan, one in zip(plans, asked, strict=True)]
    return {
        "steps_right": [float(plan is not None and len(plan) == len(wanted)) for plan, wanted in pairs],
        "plan_right": [float(plan is not None and is_right(plan, wanted)) for plan, wanted in pairs],
    }


def _style(example: TrainingExample) -> str:
    return example.task_id.partition("/")[0]


def interval(of_seeds: Sequence[Mapping[str, Sequence[float]]], name: str) -> Interval:
    return mean_over_groups([np.array(scores[name]) for scores in of_seeds])


def means(of_seeds: Sequence[Mapping[str, Sequence[float]]], name: str) -> list[float]:
    return [float(np.mean(scores[name])) for scores in of_seeds]


def table(found: Mapping[int, Sequence[Scores]]) -> Table:
    shown = Table("instructions", "steps right %", "whole plan %", "each seed")
    for size, of_seeds in found.items():
        if of_seeds:
            cells = [interval(of_seeds, name) for name in ("steps_right", "plan_right")]
            each = ", ".join(f"{100 * one:.1f}" for one in means(of_seeds, "plan_right"))
            shown.add_row(
                str(size), *(f"{100 * c.mean:.1f} ({100 * c.low:.1f} to {100 * c.high:.1f})" for c in cells), each
            )
    return shown


if __name__ == "__main__":
    main()
