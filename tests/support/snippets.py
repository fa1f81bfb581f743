"""The snippets of README and docs: what each is, and what the comment before it says of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_DOCS = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(page for page in _DOCS if not page.startswith(("docs/results/", "docs/_build/"))),
)
_TREES = {"docs/architecture.md"}
"""Its indented blocks are trees of calls."""
_BLOCK = re.compile(
    r"(?:^<!-- (?P<how>needs|tested): (?P<what>[^\n]*?) -->\n\s*)?"
    r"(?:^```(?P<language>\w+)\n(?P<fenced>.*?)^```|(?P<indented>(?:^ {4}\S[^\n]*\n(?:^ {4,}[^\n]*\n)*)))",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:orchestai|python|make|accelerate|pip|npm|scripts/\S+|curl|vllm|sbatch)\b(?!/)"
)
_PYTHON = re.compile(r"(?:from \S+ import|import \w|class \w+|(?:async )?def |\w+ = (?:await )?\w+[.(])")


@dataclass(frozen=True)
class Snippet:
    """A snippet of a page.

    Attributes:
        language: of a fence; `bash` for indented commands.
        how: `needs` (what is not here), `tested` (by a file of tests), or empty where this test executes it.
    """

    page: str
    line: int
    language: str
    text: str
    how: str = ""
    what: str = ""

    @property
    def commands(self) -> list[list[str]]:
        """Command lines in words as written, comments left out, continued lines joined."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        lines = (re.sub(r"\s#.*", "", line).strip() for line in joined.splitlines())
        return [shlex.split(line) for line in lines if _COMMAND.match(line)]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets() -> Iterator[Snippet]:
    """All that could be executed: fences of a language, and indented commands."""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for found in _BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            indented = found["indented"]
            if indented is None:
                yield Snippet(page, line, found["language"], found["fenced"], found["how"] or "", found["what"] or "")
            elif page not in _TREES and any(map(_COMMAND.match, _dedented(indented).splitlines())):
                body = _dedented(indented)
                yield Snippet(page, line, "bash", body, found["how"] or "", found["what"] or "")


def code_elsewhere() -> Iterator[str]:
    """Places of what looks like code but is no snippet: fences that name no language, Python that is only indented."""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in _BLOCK.finditer(text):
            if block["indented"] and _PYTHON.match(_dedented(block["indented"])):
                yield f"{page}:{text.count(chr(10), 0, block.start()) + 1}"
        fences = [line for line in text.splitlines() if line.startswith("```")]
        yield from (f"{page}: {fence}" for fence in fences[::2] if fence == "```")


def _dedented(block: str) -> str:
    return re.sub(r"^ {4}", "", block, flags=re.MULTILINE)
