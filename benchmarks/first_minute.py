"""What a newcomer's first sentences get in an empty folder: answers, seconds, memory.

    python -m benchmarks.first_minute [--program PATH] [--repeat N] [--json FILE]

Each sentence is asked in a process of its own, in a new empty folder, without a key, a server or a network; then those
that no language model is needed for are asked again of one process that stays open. A program elsewhere, of a wheel in
an environment of its own, is measured by `--program`, without the open process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.commands import measure
from orchestai import Orchestrator
from orchestai.storage import artifacts

SENTENCES = {
    "What is 12 * 7?": "84",
    "reverse the word stone, then write it in capitals": "ENOTS",
    "How many days are there between 1 March and 24 December 2026?": "298 days",
    "Write a function that returns the square of a number, for example task_func(4) == 16": "a function that squares",
    "Wie viel sind 19 Prozent von 250?": "47,5",
    "Beam me to the moon": "that nobody here can, and what to do",
    "": "that nothing was asked",
    "count the words of this text: " + "so many words " * 355: "1065",
    'Replace every "a" by "o" in "banana",\nthen count its letters': "6",
    "Translate 'good evening' into French": "that a server is needed, and how to add one",
    "Sort these: pear, apple, fig": "apple, fig, pear",
    "What can you do?": "the workers, and what each does",
}
"""Sentence -> what a sensible person would expect."""
PROGRAM = Path(sys.executable).with_name("orchestai")


def asked_alone(program: Path, sentence: str, repeat: int) -> dict[str, Any]:
    """Seconds and memory of `run` in new empty folders, and all that the last one said."""
    found = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
            command = [str(program), "run", sentence]
            found.append(measure(command, said.fileno(), folder=Path(folder)))
            said.seek(0)
            transcript = said.read().decode()
    seconds = [one.seconds for one in found]
    return {
        "seconds": {"minimum": min(seconds), "median": statistics.median(seconds), "maximum": max(seconds)},
        "peak_mb": max(one.peak_mb for one in found),
        "exit_code": found[-1].exit_code,
        "transcript": transcript,
    }


def asked_of_one(sentences: list[str]) -> list[float]:
    """Seconds of each in a process that is open, after one that is not counted."""
    found = []
    os.chdir(tempfile.gettempdir())  # where no configuration is
    with Orchestrator.open() as orchestrator:
        for sentence in [sentences[0], *sentences]:
            began = time.monotonic()
            orchestrator.run_sync(sentence)
            found.append(time.monotonic() - began)
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write figures and transcripts to this file")
    args = parser.parse_args()
    written = args.json and args.json.absolute()
    console, table = Console(), Table("sentence", "expected", "seconds", "MB", "said")
    rows = {}
    for sentence, expected in SENTENCES.items():
        rows[sentence] = row = {"expected": expected, **asked_alone(args.program.absolute(), sentence, args.repeat)}
        took = " ".join(f"{value:.1f}" for value in row["seconds"].values())
        table.add_row(repr(sentence[:60]), expected, took, f"{row['peak_mb']:.0f}", row["transcript"][-300:])
    figures: dict[str, Any] = {"sentences": rows, "repeat": args.repeat, "versions": artifacts.versions()}
    if args.program == PROGRAM:
        quick = [sentence for sentence, row in rows.items() if row["exit_code"] == 0 and row["peak_mb"] < 400]
        figures["open_process_seconds"] = dict(zip(quick, asked_of_one(quick), strict=True))
    console.print(table)
    console.print({name[:60]: round(took, 2) for name, took in figures.get("open_process_seconds", {}).items()})
    if written:
        artifacts.write_json(written, figures)


if __name__ == "__main__":
    main()
