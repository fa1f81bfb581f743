"""From paths to the page's data: everything that was found, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from orchestai.errors import UserError
from orchestai.report import curves, evaluations, executions, rollouts
from orchestai.report.chunks import MOST_EMBEDDED, ChunkWriter, with_shared_texts
from orchestai.report.page_file import write_page
from orchestai.report.served_feedback import ReadFeedback, ServedFeedback
from orchestai.report.sources import Found, find
from orchestai.report.whole_lines import whole_lines
from orchestai.storage import artifacts

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
    groups: rollouts.Groups
    runs: list[dict[str, Any]] = field(default_factory=list)
    curves: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    reliability: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: Found, name: str) -> None:
        """Read what one path holds."""
        run, problems = len(self.runs), list(found.problems)
        facts = [source.value for source in found.of("run") if isinstance(source.value, dict)]
        settings = _settings(facts)
        for source in found.of("executions"):
            self.executions.read(run, source.path, problems)
        for source in found.of("rollouts"):
            self.groups.read(run, source.path, problems)
        for phase in ("phase1", "phase2"):
            for source in found.of(phase):
                rows = _rows(source.path, problems)
                self.curves += [{"run": run, **chart} for chart in curves.charts(phase, rows, settings)]
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
                "facts": [_facts(fact) for fact in facts],
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

    def data(self, title: str, live: bool) -> dict[str, Any]:
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
            "live": live,
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
            "groupColumns": rollouts.COLUMNS,
            "groups": self.groups.rows,
        }


def build_report(
    paths: Sequence[Path],
    output: Path,
    *,
    feedback: ReadFeedback = dict,
    most_embedded: int = MOST_EMBEDDED,
    live: bool = False,
) -> list[str]:
    """Write the page of these files and folders; a line for each thing that could not be read.

    Args:
        feedback: what people said of served runs; asked for once there are any.
        most_embedded: bytes of compressed details beyond which they lie in a folder beside the page.
        live: the page asks the server that it comes from for changes.

    Raises:
        UserError: a path does not exist, or the page cannot be written.
    """
    if output.is_dir():
        raise UserError(f"{output}: a folder; name the file to write, such as {output / 'report.html'}")
    if output.suffix not in (".html", ".htm"):
        raise UserError(f"{output}: not written, since it may be something else; name a page, such as report.html")
    found = [find(path) for path in paths]
    with ChunkWriter(most_embedded) as chunks:
        report = Report(executions.Executions(chunks, ServedFeedback(feedback)), rollouts.Groups(chunks))
        for one, name in zip(found, distinct_names(paths, [one.name for one in found]), strict=True):
            report.add(one, name)
        report.executions.finish()
        chunks.close()
        names = [run["name"] for run in report.runs]
        title = names[0] if len(names) == 1 else f"{len(names)} runs compared"
        write_page(output, report.data(title, live), report.index(), chunks)
    return [f"{run['name']}: {problem}" for run in report.runs for problem in run["problems"]]


def distinct_names(paths: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The paths' last parts, with the folders before them where two are the same or one is a mere number."""
    longer = [f"{path.resolve().parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    if len(set(names)) == len(names) and not any(name.isdigit() for name in names):
        return list(names)
    return longer if len(set(longer)) == len(longer) else [str(path) for path in paths]


def _rows(file: Path, problems: list[str]) -> list[dict[str, Any]]:
    return [value for _, value in whole_lines(file, problems) if isinstance(value, dict)]


def _settings(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Phase 2's settings, from the last run file that has them."""
    identities = [fact["identity"] for fact in facts if isinstance(fact.get("identity"), dict)]
    return {
        key.removeprefix(_PREFIX): value
        for identity in identities
        for key, value in identity.items()
        if key.startswith(_PREFIX)
    }


def _facts(fact: Mapping[str, Any]) -> dict[str, Any]:
    """What a run file says in one line each."""
    return {
        key: value
        for key, value in fact.items()
        if isinstance(value, str | int | float) or (key == "versions" and isinstance(value, dict))
    }
