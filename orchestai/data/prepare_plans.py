"""Plans of other sources to training data: read, checked, and split so that no task is on two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from orchestai.config import Config
from orchestai.data.readers import Reader, SourcePlan, UnusablePlanError
from orchestai.data.training_file import Entry, TrainingExample, Vocabulary, save_training_data
from orchestai.errors import UserError
from orchestai.tasks.splits import part_of, words


@dataclass(frozen=True)
class PlansReport:
    """What `prepare-plans` kept and left out.

    Attributes:
        sources: source -> examples by split.
        dropped: reason -> number of records.
    """

    sources: dict[str, dict[str, int]]
    dropped: dict[str, int]

    def table(self) -> Table:
        """For the terminal."""
        table = Table("source", "train", "validation", "test", title_justify="left")
        for source, splits in self.sources.items():
            table.add_row(source, *(str(splits.get(split, 0)) for split in ("train", "validation", "test")))
        for reason, count in self.dropped.items():
            table.add_row(f"dropped: {reason}", str(count), "", "")
        return table


def prepare_plans(reader: Reader, paths: Sequence[Path], config: Config, output: Path | str) -> PlansReport:
    """Write the training file and its sidecar.

    Each example says its source and license. Tasks are divided as those of a suite are (`orchestai.tasks.splits`), and
    the test part is for `evaluate-plans`: plans for the same task, of whatever source, are on the same side, and stay
    there as data grow. Another `tasks.test_fold` keeps other tasks. Examples that were prepared before keep their
    split.
    """
    examples, dropped = read_plans(reader, paths, config)
    if not examples:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in dropped.most_common())
        raise UserError(f"{', '.join(map(str, paths))}: no plan can be learned from ({reasons or 'there is none'})")
    counts = Counter((example.suite, example.split) for example in examples)
    sources = {source: {s: counts[source, s] for s in ("train", "validation", "test")} for source, _ in sorted(counts)}
    totals: Counter[str] = Counter(example.split for example in examples)
    save_training_data(output, examples, config, counts=dict(totals), dropped=dict(dropped))
    return PlansReport(sources, dict(dropped.most_common()))


def read_plans(reader: Reader, paths: Sequence[Path], config: Config) -> tuple[list[TrainingExample], Counter[str]]:
    """The examples that `prepare_plans` writes, and what it leaves out by reason."""
    vocabulary = Vocabulary.of(config)
    dropped: Counter[str] = Counter()
    examples: list[TrainingExample] = []
    seen: set[str] = set()
    sides: dict[str, bool] = {}
    for path in paths:
        for found in reader(path):
            if isinstance(found, UnusablePlanError):
                dropped[str(found)] += 1
                continue
            if isinstance(found, TrainingExample):
                example = found
            elif isinstance(found, Entry):
                example = found.example(vocabulary)
            elif isinstance(found, SourcePlan):
                split = part_of(found.task, config.tasks)
                example = found.example().model_copy(update={"split": split})
            else:
                raise UserError(f"{path}: the reader gave a {type(found).__name__} where a SourcePlan is wanted")
            if len(example.workflow) > config.planner.max_subtasks:
                dropped[f"more steps than planner.max_subtasks={config.planner.max_subtasks}"] += 1
            elif (plan := example.model_dump_json(exclude={"task_id", "task"})) in seen:
                dropped["the same plan for the same task"] += 1
            else:
                seen.add(plan)
                examples.append(example)
                tested = example.split == "test"
                if sides.setdefault(words(example.asked), tested) != tested:
                    raise UserError(
                        f"{path}: {example.asked!r} is a task for tests and one to learn from; "
                        "prepare all files with the same tasks.test_fold"
                    )
    return examples, dropped
