"""The page in a real browser: it opens without an error, and what a reader does with it works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestai.report.build import build_report
from support.report.folders import judged_record, served_record, write_evaluations, write_log, write_phase2
from support.report.hostile_text import HOSTILE

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from report.conftest import OpenedPage

ROOT = Path(__file__).parents[2]
VIEWS = ("summary", "training", "tradeoff", "executions", "groups", "reliability", "workers", "figures")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Executions of three kinds, phase 2, and the evaluations and agents' transcripts of docs/results."""
    folder = tmp_path_factory.mktemp("report")
    records = [judged_record(n, success=n % 3 == 0, planner="reference" if n < 20 else "random") for n in range(40)]
    logs = write_log(folder / "logs", [*records, served_record(90)])
    said = {"r90": {"score": 0.5, "answer": "Rome", "tests": None}}
    runs = [logs, write_phase2(folder / "run"), ROOT / "docs/results"]
    build_report(runs, folder / "report.html", feedback=lambda: said)
    return folder / "report.html"


def test_every_view_opens_without_an_error_and_asks_for_nothing(page_file: Path, opened: OpenedPage) -> None:
    for view in VIEWS:
        page = opened.open(page_file, view)
        assert page.locator("#tabs a[aria-current]").inner_text().lower() in (view, "cost")
        assert page.locator("main").inner_text().strip()
    assert opened.errors == []


def test_search_and_filters_narrow_the_list_and_stay_in_the_address(page_file: Path, opened: OpenedPage) -> None:
    page = opened.open(page_file, "executions")
    assert page.locator(".count").inner_text() == "41 of 41"
    page.select_option("[data-filter=outcome]", "failed")
    assert page.locator(".count").inner_text() == "27 of 41"
    page.fill("#search", "t/2 sort")
    assert page.locator(".count").inner_text() == "8 of 41"
    address = page.url
    assert "outcome=failed" in address
    page = opened.open(page_file, address.split("#/")[1])
    assert page.locator(".count").inner_text() == "8 of 41"
    page.fill("#search", "no such words")
    assert page.locator(".row").count() == 0
    assert opened.errors == []


def test_a_step_shows_what_was_asked_and_the_address_leads_to_it(page_file: Path, opened: OpenedPage) -> None:
    page = opened.open(page_file, "executions?id=21")
    page.click("[data-step='1']")
    card = page.locator(".stepcard")
    assert card.locator(".attempt").count() == 2
    assert "check failed" in card.inner_text()
    assert "step=1" in page.url
    page = opened.open(page_file, page.url.split("#/")[1])
    assert page.locator(".stepcard h4").inner_text().startswith("Step 1")
    assert page.locator(".title h2").inner_text() == "t/21"
    page.click(".modes button:has-text('time')")
    assert page.locator(".node.critical").count() == 2
    assert "color=time" in page.url
    assert opened.errors == []


def test_lists_are_walked_with_the_keyboard_and_focus_is_kept(page_file: Path, opened: OpenedPage) -> None:
    page = opened.open(page_file, "executions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.wait_for_function("document.querySelector('.title h2').textContent === 't/1'")
    page.keyboard.press("/")
    page.keyboard.type("t/33")
    assert page.locator(".row").count() == 1
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("2")
    page.wait_for_function("location.hash.startsWith('#/training')")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert opened.errors == []


def test_a_group_shows_its_plans_side_by_side_and_agents_their_transcripts(page_file: Path, opened: OpenedPage) -> None:
    page = opened.open(page_file, "groups?kind=plans")
    columns = [column.locator(".credit").all_inner_texts() for column in page.locator(".column").all()]
    assert columns == [
        ["advantage −0.50", "cheap −0.50", "strong 0.00", "strong +0.50"],
        ["advantage +0.50", "cheap +0.50", "strong 0.00", "strong −0.50"],
    ]
    page = opened.open(page_file, "groups?kind=agents")
    assert {"system", "user", "assistant"} <= set(page.locator(".speaker").all_inner_texts())
    assert opened.errors == []


def test_details_beside_the_page_are_loaded_from_the_disk(tmp_path: Path, opened: OpenedPage) -> None:
    logs = write_log(tmp_path / "logs", [judged_record(n, text="x" * 9_000) for n in range(80)])
    build_report([logs], tmp_path / "a page.html", most_embedded=1_000)
    page = opened.open(tmp_path / "a page.html", "executions?id=79&step=2")
    assert page.locator(".stepcard h4").inner_text().startswith("Step 2")
    assert opened.errors == []
    build_report([write_log(tmp_path / "logs", [judged_record()])], tmp_path / "a page.html", most_embedded=100)
    page.evaluate("location.hash = '#/executions?id=3'")
    page.wait_for_selector("text=written anew since this page was opened")
    for file in (tmp_path / "a page.chunks").iterdir():
        file.unlink()
    page = opened.open(tmp_path / "a page.html", "executions?id=0")
    assert "is not beside this page" in page.locator(".beside").inner_text()


_WALK = """async (count) => {
  const shown = (n) => document.querySelector('.row.picked')?.dataset.id === String(n)
    && document.querySelectorAll('.stepcard .attempt').length === 2;
  const amiss = [], children = document.body.children.length;
  for (let n = 0; n < count; n += 1) {
    location.hash = `#/executions?id=${n}&step=1`;
    for (let waited = 0; waited < 500 && !shown(n); waited += 1) await new Promise((later) => setTimeout(later, 10));
    const same = document.title.length < 99 && children === document.body.children.length;
    if (!shown(n) || window.broken || !same) amiss.push(n);
  }
  return amiss;
}"""
"""Opens every execution in turn; gives those that did not open, or did something."""


def test_hostile_text_in_every_field_does_nothing(tmp_path: Path, opened: OpenedPage) -> None:
    records = [
        record
        for number, text in enumerate(HOSTILE)
        for record in (judged_record(number, success=False, text=text), served_record(number, text))
    ]
    said = {f"r{number}": {"score": 0.5, "answer": text, "tests": text} for number, text in enumerate(HOSTILE)}
    runs = [
        write_evaluations(write_phase2(tmp_path / f"run{number}", 1, text), text) for number, text in enumerate(HOSTILE)
    ]
    page_file = tmp_path / "report.html"
    logs = write_log(tmp_path / "logs", records)
    assert build_report([logs, *runs], page_file, feedback=lambda: said) == []
    assert page_file.stat().st_size < 3_000_000
    page = opened.open(page_file, "summary")
    for route in (*VIEWS, *(f"groups?id={n}" for n in range(2 * len(HOSTILE)))):
        page.evaluate("route => { location.hash = `#/${route}` }", route)
        page.wait_for_function("document.querySelector('main').innerText.trim().length > 20")
        assert "could not be drawn" not in page.locator("main").inner_text()
    assert page.evaluate(_WALK, len(records)) == []
    assert page.locator("iframe, object, embed, main img, main script, main style, base").count() == 0
    assert opened.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_fault_of_accessibility(scheme: str, page_file: Path, opened: OpenedPage) -> None:
    axe = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed (npm install --prefix tests/report)")
    opened.page.emulate_media(color_scheme=scheme)
    faults = []
    for view in (*VIEWS, "executions?id=21&step=1", "groups?kind=agents"):
        page = opened.open(page_file, view)
        page.evaluate(axe.read_text())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        faults += [
            f"{view}: {one['id']}: {one['nodes'][0]['html'][:150]} {one['nodes'][0]['failureSummary'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    assert faults == []
