"""From paths to the page's data: everything that was found, and what is missing."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from orchestai.errors import UserError
from orchestai.report import evaluations, executions
from orchestai.report.chunks import MOST_EMBEDDED, ChunkWriter, packed, with_shared_texts
from orchestai.report.evaluations import is_number
from orchestai.report.safe_text import script_json, showable, visible
from orchestai.report.sources import Found, ReadFeedback, ServedFeedback, find, whole_lines
from orchestai.storage import artifacts

COLUMNS: Final = ("run", "update", "task", "attempts", "rewards", "agents", "fault", "chunk", "place")
"""Of a group's row; `rewards` has one entry per attempt, null where it could not be judged."""
_MOST_GROUPS = 20_000
_STEP = re.compile(r'(\S+) (\S*) "(.*?)"(?: after ([^|"]*))?(?: \| |$)', re.DOTALL)


@dataclass
class Groups:
    """Rows of all groups; an attempt's details are in the chunks."""

    chunks: ChunkWriter
    rows: list[list[Any]] = field(default_factory=list)
    left_out: int = 0

    def read(self, run: int, file: Path, problems: list[str]) -> None:
        """Add the attempts that one run of phase 2 kept."""
        attempts = (value for _, value in whole_lines(file, problems) if isinstance(value, dict))
        for (update, task), some in groupby(attempts, lambda one: (one.get("update"), str(one.get("task_id", "")))):
            self._add(run, update if isinstance(update, int) else None, task, list(some))

    def read_episodes(self, run: int, episodes: Sequence[Any]) -> None:
        """Add the episodes of an evaluation of agents, a group of one each."""
        for episode in episodes:
            if isinstance(episode, dict):
                said = episode.get("transcript") or episode.get("plan") or ""
                attempt = {key: value for key, value in episode.items() if key not in ("plan", "transcript")}
                self._add(run, None, str(episode.get("task_id", "")), [attempt | {"transcript": said}])

    def _add(self, run: int, update: int | None, task: str, attempts: list[dict[str, Any]]) -> None:
        if len(self.rows) >= _MOST_GROUPS:
            self.left_out += 1
            return
        chunk, place = self.chunks.add([_shown(attempt) for attempt in attempts])
        faults = {str(attempt["fault"]) for attempt in attempts if attempt.get("fault")}
        self.rows.append(
            [
                run,
                update,
                task,
                len(attempts),
                [
                    float(f"{reward:.5g}") if isinstance(reward := attempt.get("reward"), int | float) else None
                    for attempt in attempts
                ],
                any("transcript" in attempt for attempt in attempts),
                ", ".join(sorted(faults)),
                chunk,
                place,
            ]
        )


def _shown(attempt: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in attempt.items() if key not in ("update", "plan", "transcript")}
    if isinstance(turns := shown.pop("turns", None), list):  # an evaluation has their number
        shown["turns"] = [_turn(turn) for turn in turns if isinstance(turn, dict)]
    if isinstance(said := attempt.get("transcript"), str):
        return shown | {"speeches": _speeches(said, attempt.get("speeches"))}
    plan = attempt.get("plan")
    steps = [  # of a plan on one line, `ID WORKER>FALLBACK "words" after ID,ID | ...`
        {
            "id": step[1],
            "workers": [worker for worker in step[2].split(">") if worker],
            "instruction": step[3],
            "depends_on": [parent.strip() for parent in (step[4] or "").split(",") if parent.strip()],
        }
        for step in (_STEP.finditer(plan) if isinstance(plan, str) else ())
    ]
    return shown | {"plan": plan, "steps": steps}


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    """With those decisions alone that are step, kind and advantage."""
    decisions = turn.get("decisions")
    known = [one for one in decisions if isinstance(one, list) and len(one) == 3] if isinstance(decisions, list) else []
    return turn | {"decisions": known}


def _speeches(said: str, parts: Any) -> list[dict[str, str]]:
    """The parts of a transcript whose lengths are known; all of it as one where they do not fit it."""
    speeches, at = [], 0
    for part in parts if isinstance(parts, list) else []:
        match part:
            case [str(role), str(speaker), int(length)] if said.startswith(beginning := f"[{role}] {speaker}: ", at):
                at += len(beginning)
                speeches.append({"role": role, "speaker": speaker, "text": said[at : at + length]})
                at += length + len("\n\n")
            case _:
                speeches = []
                break
    return speeches or [{"role": "", "speaker": "", "text": said}] * bool(said)


STYLES = ("page.css", "views.css")
SCRIPTS = (
    "dom.js",
    "store.js",
    "charts.js",
    "dag.js",
    "listing.js",
    "summary.js",
    "training.js",
    "tradeoff.js",
    "executions.js",
    "groups.js",
    "checks.js",
    "app.js",
)
"""In this order they make one script; each defines functions that later ones call."""


def write_page(output: Path, data: Mapping[str, Any], index: Mapping[str, Any], chunks: ChunkWriter) -> None:
    """Write the page, and its chunks beside it where they are too large for it."""
    beside = output.with_name(f"{output.stem}.chunks")
    if chunks.beside:
        chunks.write_beside(beside)
    elif beside.is_dir() and all(file.suffix == ".js" for file in beside.iterdir()):
        shutil.rmtree(beside)
    html = render(
        dict(data) | {"chunks": {"digests": chunks.digests, "folder": beside.name if chunks.beside else None}},
        index,
        chunks.embedded,
    )
    artifacts.write_text(output, html)


def render(data: Mapping[str, Any], index: Mapping[str, Any], chunks: Any) -> Any:
    """The page's text."""
    style, script = _joined(STYLES), f"(() => {{\n'use strict';\n{_joined(SCRIPTS)}\n}})();"
    loads = data["chunks"]["folder"] is not None
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_joined(("page.html",))).render(
        title=visible(data["title"]),
        policy=policy(style, script, loads_scripts=loads),
        style=style,
        script=script,
        data=script_json(data),
        index=packed(showable(index)),
        chunks=chunks,
    )


def policy(style: str, script: str, *, loads_scripts: bool) -> str:
    """Content security policy: only these styles and this script, and no connection to anywhere.

    Args:
        loads_scripts: whether chunks beside the page may be loaded as scripts, too.
    """
    sources = f"'{_hash(script)}'" + (" 'self' file:" if loads_scripts else "")
    return (
        f"default-src 'none'; script-src {sources}; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("orchestai.report") / "page"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


Rows = Sequence[Mapping[str, Any]]
_MOST_POINTS = 400


@dataclass(frozen=True)
class _Chart:
    """A chart: a title, its unit and the figures in it, by label."""

    title: str
    unit: str
    series: Mapping[str, str]
    note: str = ""


_PHASE1: Final = (
    _Chart("Loss", "", {"train_loss": "training", "val_loss": "validation"}),
    _Chart(
        "Plans that are right",
        "share",
        {"exact_plan": "steps and workers", "exact_decomposition": "steps and edges", "edge_f1": "F1 of edges"},
    ),
    _Chart("Plans that are a DAG before repair", "share", {"raw_validity": "validity"}),
    _Chart("DAG loss", "", {"train_dag_loss": "training", "val_dag_loss": "validation"}),
)
_PHASE2: Final = (
    _Chart("Reward", "", {"reward": "sampled, training tasks", "eval_reward": "greedy, validation tasks"}),
    _Chart("Success", "share", {"success": "sampled, training tasks", "eval_success": "greedy, validation tasks"}),
    _Chart("Cost of an execution", "usd", {"cost_usd": "sampled", "eval_cost_usd": "greedy"}),
    _Chart("Latency of an execution", "ms", {"latency_ms": "sampled", "eval_latency_ms": "greedy"}),
    _Chart("Entropy of explored decisions", "nats", {"entropy": "entropy"}, "low: decisions hardly vary any more"),
    _Chart("Plans that could be executed", "share", {"valid_share": "valid", "raw_valid_share": "before repair"}),
    _Chart("Groups without a difference", "share", {"flat_group_share": "flat"}, "high: nothing to learn from"),
    _Chart("Distance from the policy that sampled", "", {"approximate_kl": "approximate KL", "kl": "KL to phase 1"}),
    _Chart("Clipped decisions", "share", {"clip_low_share": "ratio too low", "clip_high_share": "ratio too high"}),
    _Chart("Effective sample size", "share", {"ess": "decisions", "ess_sequence": "rows"}),
    _Chart("Norm of the gradient", "", {"grad_norm": "before clipping"}),
    _Chart("Tokens or decisions per second", "", {"slots_per_second": "whole update"}),
)


def charts(phase: str, rows: Rows, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The charts of which there are figures, those of a kind first, then every other figure by itself.

    Args:
        phase: `phase1` or `phase2`.
        rows: of the metrics file.
        settings: of phase 2, flat, as its run file keeps them.
    """
    known, along = (_PHASE1, "epoch") if phase == "phase1" else (_PHASE2, "update")
    guards: dict[str, list[dict[str, Any]]] = {}  # where training stops, by chart
    if phase == "phase2" and is_number(flat := settings.get("flat_patience")):
        label = f"stops at 100 %, {flat} updates in a row"
        guards["Groups without a difference"] = [{"value": 1.0, "label": label}]
    drawn = [_drawn(chart, rows, along, guards.get(chart.title, [])) for chart in known]
    named = {name for chart in known for name in chart.series}
    rest = {name: None for row in rows for name in row if name not in named | {along}}
    other = [_drawn(_Chart(name, "", {name: name}), rows, along, []) for name in rest]
    return [
        {**chart, "phase": phase, "along": along, "first": first}
        for some, first in ((drawn, True), (other, False))
        for chart in some
        if chart["series"]
    ]


def _drawn(chart: _Chart, rows: Rows, along: str, guards: list[dict[str, Any]]) -> dict[str, Any]:
    series = []
    for name, label in chart.series.items():
        points = [(row[along], row[name]) for row in rows if is_number(row.get(name)) and is_number(row.get(along))]
        if points:
            # At most `_MOST_POINTS`, each the mean of its neighbors
            size = math.ceil(len(points) / _MOST_POINTS)
            parts = [points[i : i + size] for i in range(0, len(points), size)]
            thinned = [[part[-1][0], float(f"{sum(y for _, y in part) / len(part):.5g}")] for part in parts]
            series.append({"name": name, "label": label, "points": thinned})
    return {"title": chart.title, "unit": chart.unit, "note": chart.note, "series": series, "guards": guards}


_MISSING = {
    "executions": ("executions", "orchestai collect, evaluate or run write execution logs"),
    "curves": ("training curves", "orchestai train-phase1 and train-phase2 write them"),
    "evaluations": ("an evaluation", "orchestai evaluate writes evaluation.json"),
    "groups": ("groups of attempts", "orchestai train-phase2 and agents train write phase2_rollouts.jsonl"),
}
_PREFIX = "training.phase2_rl."


@dataclass
class Report:
    """The data of a page, run by run.

    Attributes:
        runs: name, files found, facts and problems of each path.
    """

    executions: executions.Executions
    groups: Groups
    runs: list[dict[str, Any]] = field(default_factory=list)
    curves: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    reliability: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: Found, name: str) -> None:
        """Read what one path holds."""
        run, problems = len(self.runs), list(found.problems)
        facts = [source.value for source in found.of("run") if isinstance(source.value, dict)]
        identities = [fact["identity"] for fact in facts if isinstance(fact.get("identity"), dict)]
        settings = {  # phase 2's, from the last run file that has them
            key.removeprefix(_PREFIX): value
            for identity in identities
            for key, value in identity.items()
            if key.startswith(_PREFIX)
        }
        lines = [
            {
                key: value
                for key, value in fact.items()
                if isinstance(value, str | int | float) or (key == "versions" and isinstance(value, dict))
            }
            for fact in facts
        ]
        for source in found.of("executions"):
            self.executions.read(run, source.path, problems)
        for source in found.of("rollouts"):
            self.groups.read(run, source.path, problems)
        for phase in ("phase1", "phase2"):
            for source in found.of(phase):
                rows = [value for _, value in whole_lines(source.path, problems) if isinstance(value, dict)]
                self.curves += [{"run": run, **chart} for chart in charts(phase, rows, settings)]
        for source in found.sources:
            if isinstance(source.value, dict):
                try:
                    self._add_figures(run, source.kind, source.path.stem, source.value)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    problems.append(f"{source.path.name}: not as expected ({type(error).__name__}: {error}); left out")
        self.runs.append(
            {
                "name": name,
                "files": [{"kind": source.kind, "name": source.path.name} for source in found.sources],
                "facts": lines,
                "problems": problems,
            }
        )

    def _add_figures(self, run: int, kind: str, title: str, value: Mapping[str, Any]) -> None:
        if kind == "evaluation":
            self.evaluations.append({"run": run, "title": title, **evaluations.evaluation(value)})
            self._add_diagrams(run, title, value)
        elif kind == "agents":
            self.groups.read_episodes(run, value["episodes"])
            shown = evaluations.figures(value.get("figures", {}))
            self.figures.append({"run": run, "title": f"{title}: {value['workflow']}", "figures": shown})
        elif kind == "figures":
            self.figures.append({"run": run, "title": title, "figures": evaluations.figures(value)})
            for name, inner in ((title, value), *value.items()):
                if isinstance(inner, Mapping):
                    if (drawn := evaluations.table(name, inner)) is not None:
                        self.evaluations.append({"run": run, "title": title, **drawn})
                    self._add_diagrams(run, name, inner)

    def _add_diagrams(self, run: int, title: str, value: Mapping[str, Any]) -> None:
        self.reliability += [{"run": run, **one} for one in evaluations.diagrams(value, title)]

    def data(self, title: str) -> dict[str, Any]:
        """All but the rows of executions and groups, which the page reads later."""
        held = {
            "executions": self.executions.rows,
            "curves": self.curves,
            "evaluations": self.evaluations,
            "groups": self.groups.rows,
        }
        return {
            "title": title,
            "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "version": artifacts.versions()["orchestai"],
            "runs": self.runs,
            "missing": [{"what": what, "how": how} for key, (what, how) in _MISSING.items() if not held[key]],
            "totals": executions.totals(self.executions, [run["name"] for run in self.runs]),
            "leftOut": {"executions": self.executions.left_out, "groups": self.groups.left_out},
            "curves": self.curves,
            "evaluations": self.evaluations,
            "choices": self.executions.choices.table(),
            "reliability": self.reliability,
            "figures": self.figures,
        }

    def index(self) -> dict[str, Any]:
        """The rows of executions and groups; many executions are of one instruction."""
        return {
            "workers": list(self.executions.workers),
            "columns": executions.COLUMNS,
            "executions": with_shared_texts(self.executions.rows),
            "groupColumns": COLUMNS,
            "groups": self.groups.rows,
        }


def build_report(
    paths: Sequence[Path],
    output: Path,
    *,
    feedback: ReadFeedback = dict,
    most_embedded: int = MOST_EMBEDDED,
) -> list[str]:
    """Write the page of these files and folders; a line for each thing that could not be read.

    Args:
        feedback: what people said of served runs; asked for once there are any.
        most_embedded: bytes of compressed details beyond which they lie in a folder beside the page.
    """
    if output.is_dir():
        raise UserError(f"{output}: a folder; name the file to write, such as {output / 'report.html'}")
    if output.suffix not in (".html", ".htm"):
        raise UserError(f"{output}: not written, since it may be something else; name a page, such as report.html")
    found = [find(path) for path in paths]
    with ChunkWriter(most_embedded) as chunks:
        report = Report(executions.Executions(chunks, ServedFeedback(feedback)), Groups(chunks))
        for one, name in zip(found, distinct_names(paths, [one.name for one in found]), strict=True):
            report.add(one, name)
        report.executions.finish()
        chunks.close()
        names = [run["name"] for run in report.runs]
        title = names[0] if len(names) == 1 else f"{len(names)} runs compared"
        write_page(output, report.data(title), report.index(), chunks)
    return [f"{run['name']}: {problem}" for run in report.runs for problem in run["problems"]]


def distinct_names(paths: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The paths' last parts, with the folders before them where two are the same or one is a mere number."""
    longer = [f"{path.resolve().parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    if len(set(names)) == len(names) and not any(name.isdigit() for name in names):
        return list(names)
    return longer if len(set(longer)) == len(longer) else [str(path) for path in paths]
