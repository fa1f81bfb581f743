"""How well a planner links the steps of plans that others wrote, beside what needs no learning.

    python benchmarks/plans.py DATA [KEY=VALUE]... [--trainings plans stated] [--seeds 3] [--plans N]
        [--output runs/plans] [--json docs/results/plans.json]

DATA holds the folders `worfbench`, `asynchow` and `break` with the published files; the steps are given. Tasks are
split by their words, so that no task is on two sides, whatever its source. A seed is also a fold: each keeps another
fifth of the tasks for tests, so there are five at most. Per seed, one planner is trained on AsyncHow and all sources
of WorFBench together (`plans`), another on AsyncHow with its ordering constraints stated, as the benchmark's own
prompts have them (`stated`), and, where it is asked for, another on Break (`break`); with `--plans`, on so many plans
of each, drawn by lot. Each is taken as it is after its
last epoch and judged, as the floors are, on the tasks of its fold. The plans of all folds together give the means and
the bootstrapped intervals. What is finished in the output folder is kept: interrupt and repeat the command to
continue.
"""

from __future__ import annotations

import argparse
import random
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestai.config import Config, Phase1Config, TasksConfig, load_config
from orchestai.data.prepare_plans import prepare_plans
from orchestai.data.readers import READERS
from orchestai.data.training_file import data_fingerprint, load_training_data, save_training_data
from orchestai.evaluation.plans import SAME_STEP, PlansEvaluation, evaluate_plans
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.slots.text_encoder import open_encoder, sentence_embedder
from orchestai.storage import artifacts
from orchestai.training.supervised.run import LAST
from orchestai.training.supervised.train import train

TRAININGS: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {
    "plans": (8, (("asynchow", "asynchow"), ("worfbench", "worfbench"))),
    "stated": (12, (("asynchow-stated", "asynchow"),)),
    "break": (8, (("break", "break"),)),
}
"""What is trained together: epochs, and readers, each with the folder that it reads."""
CONFIG = Path(__file__).resolve().parent.parent / "configs" / "plans.yaml"

console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--trainings", nargs="+", choices=TRAININGS, default=["plans", "stated"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plans", type=int, help="most plans of each training, drawn by lot; all without it")
    parser.add_argument("--output", type=Path, default=Path("runs/plans"))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args()
    config = load_config(CONFIG, args.overrides)
    embed = sentence_embedder(open_encoder(512))
    figures: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    fingerprints: dict[str, list[str]] = {}
    for name in args.trainings:
        epochs = TRAININGS[name][0]
        evaluations = []
        seconds[name], fingerprints[name] = [], []
        for seed in range(args.seeds):
            of_seed = changed(config, fold=seed, seed=seed, num_epochs=epochs)
            data = prepared(args.data, args.output / f"fold{seed}", name, args.plans, of_seed)
            examples = load_training_data(data, of_seed)
            fingerprints[name].append(data_fingerprint(data))
            folder = args.output / f"{name}{seed}"
            seconds[name].append(trained(of_seed, data, folder))
            planner = load_planner(folder / LAST, of_seed.planner, of_seed.workers)
            tests, learned = ([e for e in examples if e.split == split] for split in ("test", "train"))
            evaluations.append(evaluate_plans(planner, tests, embed, learned=learned, console=console))
        evaluation = together(evaluations)
        console.print(evaluation.table())
        licences = {example.suite: example.licence for example in examples}
        for source, cell in by_source(evaluation, evaluations).items():
            others = figures if source.startswith(("asynchow", "break")) else figures.setdefault("worfbench", {})
            others[source] = {**cell, "licence": licences[source]}
        figures[f"macro_{name}"] = by_source(evaluation, evaluations, ["macro"])["macro"]
    if args.json:
        facts = {
            "command": command(args),
            "config": config.model_dump(mode="json", include={"planner": True, "training": {"phase1_supervised"}}),
            "cpu_seconds_of_training": seconds,
            "data_fingerprint": fingerprints,
            "same_step": SAME_STEP,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(args.json, {**figures, **facts})


def command(args: argparse.Namespace) -> str:
    """What gives the figures, in this repository."""
    drawn = "" if args.plans is None else f" --plans {args.plans}"
    asked = f"--trainings {' '.join(args.trainings)} --seeds {args.seeds}{drawn}"
    return f"python benchmarks/plans.py DATA {asked} --json docs/results/{args.json.name}"


def prepared(folder: Path, output: Path, name: str, most: int | None, config: Config) -> Path:
    """The training file of some sources together, or of so many of their plans; made once."""
    parts = []
    for reader, of in TRAININGS[name][1]:
        parts.append(output / f"{reader}.json")
        if not parts[-1].exists():
            console.print(prepare_plans(READERS[reader], [folder / of], config, parts[-1], given=True).table())
    whole = output / f"{name}.json"
    if not whole.exists():
        prepare_plans(READERS["orchestai"], parts, config, whole, given=True)
    if most is None:
        return whole
    drawn = output / f"{name}{most}.json"
    if not drawn.exists():
        examples = load_training_data(whole, config)
        random.Random(0).shuffle(examples)
        save_training_data(drawn, examples[:most], config)
    return drawn


def changed(config: Config, fold: int, **settings: int) -> Config:
    """The configuration with another fold for tests, and other settings of phase 1."""
    phase1 = Phase1Config.model_validate(config.training.phase1_supervised.model_dump() | settings)
    training = config.training.model_copy(update={"phase1_supervised": phase1})
    tasks = TasksConfig.model_validate(config.tasks.model_dump() | {"test_fold": fold})
    return config.model_copy(update={"training": training, "tasks": tasks})


def trained(config: Config, data: Path, folder: Path) -> float:
    """Train, or go on with it; processor seconds that this took, as far as it was done here."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    train(config, data=data, output_dir=folder, resume=(folder / LAST).exists())
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before, 1)


def together(folds: Sequence[PlansEvaluation]) -> PlansEvaluation:
    """The plans of all folds."""
    scores = {row: [score for fold in folds for score in fold.scores[row]] for row in folds[0].scores}
    return PlansEvaluation([example for fold in folds for example in fold.examples], scores)


def by_source(
    evaluation: PlansEvaluation, seeds: Sequence[PlansEvaluation], sources: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """source -> metric -> mean, interval, number of plans and each seed's mean; the floors' means under `floors`.

    A seed whose fold has no such plan is left out of the seeds' means.
    """
    rows = evaluation.to_dict()
    per_seed = [one.to_dict()["planner"] for one in seeds]
    return {
        source: {
            metric: interval
            | {"seeds": [one[source][metric]["mean"] for one in per_seed if metric in one.get(source, {})]}
            for metric, interval in rows["planner"][source].items()
        }
        | {
            "floors": {
                floor: {metric: interval["mean"] for metric, interval in rows[floor][source].items()}
                for floor in rows
                if floor != "planner"
            }
        }
        for source in sources or evaluation.names
    }


if __name__ == "__main__":
    main()
