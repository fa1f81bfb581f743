"""How fast the report page is with many executions, and how large: in a real browser, on the machine that runs this.

    python -m benchmarks.report_page runs/demo --json docs/results/report.json
    python -m benchmarks.report_page runs/demo --screenshots docs/images

The executions of the run's log are repeated under other names until there are 10,000. An interaction takes from the
event to the next picture, as the browser itself measures it (Event Timing, in steps of 8 ms).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from collections import defaultdict
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestai.report.build import build_report
from orchestai.storage import artifacts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXECUTIONS = 10_000
_OBSERVE = """() => {
  window.interactions = [];
  const note = (one) => { if (one.interactionId) window.interactions.push(one.duration); };
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({type: 'event', durationThreshold: 16});
}"""
_VIEWS = {
    "summary": "summary",
    "cost": "tradeoff",
    "execution": "executions?outcome=failed&steps=5&sort=escalations",
    "group": "groups?sort=spread",
}


def repeated_log(run: Path, folder: Path) -> Path:
    """A log of 10,000 executions: those of a run, again and again under other tasks."""
    found = [file for file in sorted(run.rglob("*.jsonl")) if "execution_logs" in file.parts]
    lines = [value for file in found for _, value in artifacts.read_lines(file)[0]]
    with (folder / "log.jsonl").open("w") as log:
        for number, line in enumerate(islice(cycle(lines), EXECUTIONS)):
            log.write(json.dumps(line | {"task_id": f"{line['task_id']}/{number // len(lines)}"}) + "\n")
    return folder / "log.jsonl"


def measure(browser: Browser, page_file: Path, loads: int) -> dict[str, Any]:
    """Milliseconds until the first picture and until lists can be searched, and of each kind of interaction."""
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(loads):
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.goto(f"{page_file.as_uri()}#/executions")
        page.wait_for_selector("html[data-ready]")
        took["first paint"].append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        took["lists ready"].append(page.evaluate("performance.now()"))
        page.wait_for_selector(".beside > *")
        page.evaluate(_OBSERVE)
        for name, act in _ACTS.items():
            page.evaluate("window.interactions = []")
            act(page)
            page.wait_for_timeout(400)
            took[name] += page.evaluate("window.interactions") or [16.0]
        page.close()
    return {name: {"median": statistics.median(ms), "worst": max(ms), "n": len(ms)} for name, ms in took.items()}


def longest_tasks(browser: Browser, page_file: Path, trace: Path) -> dict[str, float]:
    """CPU milliseconds of the longest task of the page's own thread, while it loads and in each kind of interaction.

    Unlike the time on a clock, other programs on the machine hardly change it.
    """
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    browser.start_tracing(page=page, path=trace, categories=["toplevel", "blink.user_timing", "devtools.timeline"])
    page.goto(f"{page_file.as_uri()}#/executions")
    page.wait_for_selector(".beside > *")
    page.wait_for_timeout(1000)
    for name, act in _ACTS.items():
        page.evaluate("name => performance.mark(`act:${name}`)", name)
        act(page)
        page.wait_for_timeout(500)
    browser.stop_tracing()
    page.close()
    events = json.loads(trace.read_text())["traceEvents"]
    marks = sorted((e["ts"], e["name"][4:], e["pid"], e["tid"]) for e in events if e.get("name", "").startswith("act:"))
    thread = marks[0][2:]
    tasks = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == thread and e["name"].endswith("RunTask")]
    longest: dict[str, float] = defaultdict(float)
    for task in tasks:
        name = next((name for at, name, *_ in reversed(marks) if at <= task["ts"]), "loading")
        longest[name] = max(longest[name], task.get("tdur", 0) / 1000)
    return dict(longest)


def _search(page: Page) -> None:
    page.click("#search")
    page.keyboard.type("sort list", delay=60)


def _clear(page: Page) -> None:
    page.click("#search")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")


def _walk(page: Page) -> None:
    page.click("#list .row >> nth=2")
    for _ in range(8):
        page.keyboard.press("j")
        page.wait_for_timeout(60)


def _sort(page: Page) -> None:
    page.focus("[data-filter=sort]")
    page.keyboard.press("ArrowDown")


def _filter(page: Page) -> None:
    page.focus("[data-filter=outcome]")
    page.keyboard.press("ArrowDown")


_ACTS = {
    "a letter of a search": _search,
    "end of the search": _clear,
    "next execution": _walk,
    "filter": _filter,
    "sort": _sort,
    "a step": lambda page: page.click("[data-step] >> nth=0"),
    "colors by cost": lambda page: page.click(".modes button >> nth=1"),
    "another view": lambda page: page.click("#tabs a >> nth=0"),
}


def photograph(browser: Browser, page_file: Path, folder: Path) -> None:
    """Pictures of the page in light and dark, in few colors, so that they are small."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        for name, route in _VIEWS.items():
            page.goto("about:blank")
            page.goto(f"{page_file.as_uri()}#/{route}")
            page.wait_for_selector("html[data-ready]")
            page.wait_for_timeout(500)
            file = folder / f"report-{name}-{scheme}.png"
            page.screenshot(path=file)
            Image.open(file).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(file, optimize=True)
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="Folder that make demo wrote.")
    parser.add_argument("--loads", type=int, default=5, help="0 leaves out what a busy machine falsifies.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--screenshots", type=Path, help="Take pictures for this folder instead.")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        demo, many = Path(folder, "demo.html"), Path(folder, "many.html")
        build_report([options.run], demo)
        if options.screenshots:
            return photograph(browser, demo, options.screenshots)
        build_report([repeated_log(options.run, Path(folder))], many)
        figures = {
            "browser": browser.version,
            "machine": platform.platform(),
            "demo_page_bytes": demo.stat().st_size,
            "executions": EXECUTIONS,
            "page_bytes": many.stat().st_size,
            "loads": options.loads,
            "milliseconds": measure(browser, many, options.loads),
            "load_average": os.getloadavg()[0],
            "longest_task_cpu_ms": longest_tasks(browser, many, Path(folder, "trace.json")),
        }
        browser.close()
    Console().print_json(data=figures)
    if options.json:
        artifacts.write_json(options.json, figures)


if __name__ == "__main__":
    main()
