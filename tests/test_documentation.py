"""What the pages, the configurations and the scripts name is there: modules move, and sentences do not follow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROSE = ("*.md", "Makefile", "config.yaml", "docs/**/*.md", "configs/**/*.yaml", "data/*.md", "local_training/*.md")
SCRIPTS = ("*.py", "benchmarks/**/*.py", "examples/**/*.py", "local_training/**/*.py", "scripts/*.py")
NAME = re.compile(r"(?<!entry-points\.\")\borchestai(?:\.(?!json\b)[A-Za-z_]\w*)+")
IMPORT = re.compile(r"from (orchestai[\w.]*) import (\w+(?:, \w+)*)")
PATH = re.compile(r"(?<![\w/.-])(?:accelerate_configs|benchmarks|configs|orchestai|tests)/[\w./*-]*[\w/*]")
INSIDE = re.compile(r"(?<![\w/])(?!tests/)[a-z_0-9]+(?:/[a-z_]+)*\.py\b")
"""A path of the page on architecture, which leaves the package's own name out."""
CALL = re.compile(r"^ {6,}([A-Za-z_]\w*(?:\.\w+)*(?:, \w+)*) {2,}([a-z_/]+\.py)", re.MULTILINE)
"""A line of a tree of calls: what is called, and where it is defined."""
PLACEHOLDER = re.compile(r"/[A-Z_]{3,}(?![a-z])")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def files(patterns: tuple[str, ...]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in chain.from_iterable(map(ROOT.glob, patterns)))


def test_names_paths_and_links_in_prose_are_there() -> None:
    absent = []
    for page in files(PROSE):
        text = (ROOT / page).read_text()
        imported = [f"{module}.{name}" for module, names in IMPORT.findall(text) for name in names.split(", ")]
        paths = [path for path in PATH.findall(text) if not PLACEHOLDER.search(path)]
        if page == "docs/architecture.md":
            paths += [f"orchestai/{path}" for path in INSIDE.findall(text)]
        absent += [(page, name) for name in [*NAME.findall(text), *imported] if not resolves(name)]
        absent += [(page, path) for path in paths if not any(ROOT.glob(path.rstrip("/")))]
        absent += [(page, link) for link in LINK.findall(text) if not (ROOT / page).parent.joinpath(link).exists()]
    assert absent == []


def test_what_call_trees_name_is_defined_where_they_say() -> None:
    """A path that is there still misleads when what the line names has moved out of it."""
    lines = CALL.findall((ROOT / "docs/architecture.md").read_text())
    assert len(lines) > 30
    for names, path in lines:
        source = (ROOT / "orchestai" / path).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^\s*(?:async )?(?:class|def) {name}\b", source, re.MULTILINE), f"{path}: no {name}"


@pytest.mark.slow
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    """`make docs`, which any warning ends: a heading below none, a docstring that is no longer there."""
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason=f"{package} is not installed (make docs installs it)")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    index = (tmp_path / "searchindex.js").read_text()
    assert all(word in index for word in ("advantag", "receipt", "orchestr"))


def test_what_scripts_import_is_there() -> None:
    """Type checking and most tests do not reach them."""
    nodes = [(script, node) for script in files(SCRIPTS) for node in ast.walk(ast.parse((ROOT / script).read_text()))]
    imports = [(script, node) for script, node in nodes if isinstance(node, ast.ImportFrom)]
    names = [(script, f"{node.module}.{alias.name}") for script, node in imports for alias in node.names]
    assert [one for one in names if one[1].startswith("orchestai") and not resolves(one[1])] == []


def resolves(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
