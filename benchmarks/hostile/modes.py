"""What hostile programs gain, harm or delay, and whether honest ones get what they deserve, in each way of judging.

    python benchmarks/hostile/modes.py FILE... [--modes auto sealed open] [--users USER ...] [--ids ID ...] --json PATH

FILE has one JSON line per program: `id`, `category` (forge, honest, hang, harm, probe, broken, resource), `code`,
`test`, `entry_point`, `expect.passed` and `expect.total`; `tests/sandbox/hostile.jsonl` is one. `auto` judges each as
the source of its tests says, `sealed` and `open` whatever that says; tests that cannot be sealed are refused then. Of
honest programs `short` counts where the mode is the one that their tests' source gives. Where root runs this, the
sandbox may also be run by `nobody` and by `root without CAP_SYS_ADMIN`. Every verdict is written to PATH with the
ending `.partial` at once, and is not sought again if this was interrupted; PATH comes last, and whole. Programs that
kill, fill and delete what they can reach run where namespaces hold, or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from orchestai.storage import artifacts

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.sandbox import hostile as sandbox_hostile

KINDS = ("undeserved", "harm", "late", "short", "unheld", "lost", "status", "no_verdict")
"""See `sandbox_hostile.run`."""
console = Console(stderr=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--modes", nargs="+", choices=("auto", "sealed", "open"), default=["auto", "sealed", "open"])
    parser.add_argument("--users", nargs="+", choices=sandbox_hostile.USERS, default=["root"], metavar="USER")
    parser.add_argument("--ids", nargs="+", metavar="ID", help="only these programs")
    parser.add_argument("--json", type=Path, required=True, help="where the counts and the faults are written")
    args = parser.parse_args()
    partial = args.json.with_name(args.json.name + ".partial")
    known = [json.loads(line) for line in partial.read_text().splitlines()] if partial.exists() else []
    programs = [(file.name, json.loads(line)) for file in args.files for line in file.read_text().splitlines()]
    programs = [(file, program) for file, program in programs if not args.ids or program["id"] in args.ids]
    results = {}
    for run in [f"{user}, {mode}" for user in args.users for mode in args.modes]:
        found = {(one["file"], one["id"]): one for one in known if one["run"] == run}
        left = [(file, program) for file, program in programs if (file, program["id"]) not in found]
        outcomes = track(judged([program for _, program in left], *run.split(", ")), run, len(left), console=console)
        with partial.open("a") as journal:
            for (file, _), one in zip(left, outcomes, strict=True):
                found[file, one["id"]] = one | {"run": run, "file": file}
                print(json.dumps(found[file, one["id"]]), file=journal, flush=True)
        for name in dict.fromkeys(file for file, _ in programs):
            of_file = [program for file, program in programs if file == name]
            results[f"{run}, {name}"] = summary(of_file, [one for (file, _), one in found.items() if file == name])
            print(f"{run}, {name}: {json.dumps(results[f'{run}, {name}'])}", flush=True)
    artifacts.write_json(args.json, {"cpus": os.cpu_count(), "versions": artifacts.versions(), **results})
    partial.unlink()


def judged(programs: list[dict[str, Any]], user: str, mode: str) -> Any:
    """What `sandbox_hostile.run` says of each, as `user`.

    Raises:
        SystemExit: it failed; what it said stands on the screen.
    """
    if not programs:
        return
    command = sandbox_hostile.command_as(user, mode)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(json.dumps(program) + "\n" for program in programs)
        lines.seek(0)
        with subprocess.Popen(command, stdin=lines, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            yield from map(json.loads, process.stdout)
    if process.returncode:
        raise SystemExit(process.returncode)


def summary(programs: list[dict[str, Any]], found: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of programs and modes, and which programs had which faults."""
    faulty = {kind: sorted({one["id"] for one in found if kind in one["faults"]}) for kind in KINDS}
    return {
        "categories": Counter(program["category"] for program in programs),
        "isolation": Counter("refused" if one["status"] == "refused" else one["isolation"] for one in found),
        "faults": {kind: names for kind, names in faulty.items() if names},
    }


if __name__ == "__main__":
    main()
