"""What programs that attack the sandbox gain, harm or delay, and whether honest ones get what they deserve.

    python benchmarks/hostile/attacks.py FILE... [--isolation auto|split|shared] [--ids ID ...] [--repeat N]
        [--json PATH]

FILE has one JSON line per program: `id`, `category` (forge, honest, hang, harm, probe, broken, resource), `code`,
`test`, `entry_point`, `expect.passed` and `expect.total`, perhaps `isolation`; `tests/sandbox/hostile.jsonl` is one.
`auto` judges each in its own isolation, and in `split` where it names none. A verdict is late that takes more than the
program's limit and two seconds. `--repeat 40` shows what rests on chance. The exit code is 1 where there were faults.
Programs that kill, fill and delete what they can reach run where namespaces hold, or not at all.
"""

from __future__ import annotations

import argparse
import json
import sys
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--isolation", choices=("auto", "split", "shared"), default="auto")
    parser.add_argument("--ids", nargs="+", metavar="ID", help="only these programs")
    parser.add_argument("--repeat", type=int, default=1, help="judge each so many times")
    parser.add_argument("--json", type=Path, help="also write the counts and the faults to this file")
    args = parser.parse_args()
    results = {str(file): run(file, args.isolation, args.ids, args.repeat) for file in args.files}
    for file, result in results.items():
        show(file, result)
    if args.json is not None:
        artifacts.write_json(args.json, {"isolation": args.isolation, "repeat": args.repeat, "files": results})
    return int(any(result["faults"] for result in results.values()))


def run(file: Path, isolation: str, ids: list[str] | None, repeat: int) -> dict[str, Any]:
    """Counts of faults by kind, and the faults of each program that has some."""
    programs = [json.loads(line) for line in file.read_text().splitlines()]
    programs = [program for program in programs if not ids or program["id"] in ids] * repeat
    outcomes = sandbox_hostile.run(programs, isolation, sandbox_hostile.LIMITS.wall_s + 2)
    faults = []
    for outcome in track(outcomes, file.name, total=len(programs), console=console):
        if outcome["faults"]:
            faults.append(outcome)
    counts = Counter(kind for outcome in faults for kind in outcome["faults"])
    return {"programs": len(programs), "counts": {kind: counts[kind] for kind in KINDS}, "faults": faults}


def show(file: str, result: dict[str, Any]) -> None:
    for outcome in result["faults"]:
        for kind, text in outcome["faults"].items():
            print(f"{kind:10}  {outcome['id']}: {' '.join(text.split())}")
    print(f"{file}, {result['programs']} judged:", ", ".join(f"{n} {kind}" for kind, n in result["counts"].items()))


if __name__ == "__main__":
    sys.exit(main())
