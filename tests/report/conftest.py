"""A real browser; what needs one is skipped, with the reason, where none is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class OpenedPage:
    """A page of a browser, with everything that went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._requested(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.errors.append(text)

    def _requested(self, url: str) -> None:
        if not url.startswith(("file:", "http://127.0.0.1", "data:", "blob:")):
            self.errors.append(f"asked for {url}")

    def open(self, file: Path, route: str = "") -> Page:
        """The page at this address, once its lists are unpacked and what is picked is shown."""
        self.page.goto("about:blank")
        self.page.goto(f"{file.as_uri()}#/{route}")
        self.page.wait_for_selector("html[data-ready]")
        if route.startswith(("executions", "groups")):
            self.page.wait_for_selector(".beside > *")
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed behind each file: while it is open, its event loop is the thread's running one, and no other can run."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found: Any = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[OpenedPage]:
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    yield OpenedPage(page)
    page.close()
