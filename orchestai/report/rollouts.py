"""Attempts that phase 2 learned from, in their groups: plans with advantages, and transcripts of agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from orchestai.report.chunks import ChunkWriter
from orchestai.report.whole_lines import whole_lines

COLUMNS: Final = ("run", "update", "task", "attempts", "rewards", "agents", "fault", "chunk", "place")
"""Of a group's row; `rewards` has one entry per attempt, null where it could not be judged."""
_MOST_GROUPS = 20_000
_SPEECH = re.compile(r"^\[([^\]\n]+)\] (system|user|assistant|tool)(?: \(([^)\n]*)\))?: ", re.MULTILINE)
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
                [_reward(attempt) for attempt in attempts],
                any("transcript" in attempt for attempt in attempts),
                ", ".join(sorted(faults)),
                chunk,
                place,
            ]
        )


def _reward(attempt: dict[str, Any]) -> float | None:
    value = attempt.get("reward")
    return float(f"{value:.5g}") if isinstance(value, int | float) else None


def _shown(attempt: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in attempt.items() if key not in ("update", "plan", "transcript")}
    if isinstance(turns := shown.pop("turns", None), list):  # an evaluation has their number
        shown["turns"] = [_turn(turn) for turn in turns if isinstance(turn, dict)]
    if isinstance(said := attempt.get("transcript"), str):
        return shown | {"speeches": list(_measured_speeches(said, attempt.get("speeches")) or _speeches(said))}
    plan = attempt.get("plan")
    return shown | {"plan": plan, "steps": list(_steps(plan)) if isinstance(plan, str) else []}


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    """With those decisions alone that are step, kind and advantage."""
    decisions = turn.get("decisions")
    known = [one for one in decisions if isinstance(one, list) and len(one) == 3] if isinstance(decisions, list) else []
    return turn | {"decisions": known}


def _measured_speeches(said: str, parts: Any) -> list[dict[str, str]]:
    """The parts of a transcript whose lengths are known; none where they do not fit it."""
    speeches, at = [], 0
    for part in parts if isinstance(parts, list) else []:
        match part:
            case [str(role), str(speaker), int(length)] if said.startswith(beginning := f"[{role}] {speaker}: ", at):
                at += len(beginning)
                speeches.append({"role": role, "speaker": speaker, "text": said[at : at + length]})
                at += length + len("\n\n")
            case _:
                return []
    return speeches


def _speeches(said: str) -> Iterator[dict[str, str]]:
    """Of `[role] speaker: words` paragraphs of older runs, where words may be taken for the beginning of a speech."""
    starts = [*_SPEECH.finditer(said)]
    if not starts:
        if said:
            yield {"role": "", "speaker": "", "text": said}
        return
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        text = said[start.end() : following.start() if following else len(said)]
        yield {"role": start[1], "speaker": start[2], "text": text.removesuffix("\n\n")}


def _steps(plan: str) -> Iterator[dict[str, Any]]:
    """Of a plan on one line, `ID WORKER>FALLBACK "words" after ID,ID | ...`."""
    for step in _STEP.finditer(plan):
        yield {
            "id": step[1],
            "workers": [worker for worker in step[2].split(">") if worker],
            "instruction": step[3],
            "depends_on": [parent.strip() for parent in (step[4] or "").split(",") if parent.strip()],
        }
