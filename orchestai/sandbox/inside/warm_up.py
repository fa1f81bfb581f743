"""What libraries do only when they are first used, done once in the fork server: else every program would do it again.

They import modules late, look at signatures, fill caches. So each library that is preloaded is put to its commonest
uses on a small table. What programs can see of the process stays as it was: random numbers, warnings, figures.
"""

from __future__ import annotations

import importlib
import io
import random
import sys
import warnings
from contextlib import suppress
from typing import Any

_USES = {
    "numpy": """
library.random.seed(0)
array = library.random.randn(8, 3) + library.random.rand(8, 1) + library.random.randint(0, 9, (8, 1))
library.linalg.inv(array.T @ array), repr(library.sort(array, axis=0).mean(axis=0))
library.isclose(array.std(), 1), library.percentile(array, 50)
""",
    "pandas": """
table = library.DataFrame({"key": ["x", "y", "z"] * 8, "group": y, "a": range(24), "b": range(24)})
table["date"] = library.to_datetime(["2024-01-01"] * 24)
table.groupby("key").agg(mean=("a", "mean"), size=("b", "size")).reset_index().sort_values("mean")
table.groupby("group")["a"].sum(), table["key"].value_counts(), table["key"].str.upper()
table.merge(table[["key", "b"]], on="key"), table.pivot_table(values="a", index="key", columns="group")
library.concat([table[["a"]], table[["b"]] ** 2], axis=1).corr()
table.join(table["a"].rename("c")).assign(d=lambda t: t["a"] > 1).fillna(0).dropna().drop(columns="d").describe()
table["a"].apply(lambda value: value + 1), table[table["a"] > 2].loc[:, "b"].iloc[0], table.to_numpy()
library.read_csv(io.StringIO(table.to_csv(index=False))), repr(table), table.equals(table.copy())
table["date"].dt.year, table.to_dict("records"), library.date_range("2024-01-01", periods=3)
""",
    "scipy.stats": """
values = [a for a, _ in rows]
library.norm.pdf(values, *library.norm.fit(values)), library.ttest_ind(values, values[:9]), library.zscore(values)
library.pearsonr(values, values), library.skew(values), library.mode(values)
""",
    "matplotlib.pyplot": """
figure, axes = library.subplots()
axes.plot([1, 2], label="line"), axes.bar(["a", "b"], [1, 2]), axes.hist([1, 2, 2]), axes.scatter([1], [2])
axes.set(title="title", xlabel="x", ylabel="y"), axes.legend(), axes.get_xticklabels()
figure.canvas.draw(), library.close("all")
""",
    "sklearn.cluster": "library.KMeans(2, n_init=2, random_state=0).fit(x).predict(x)",
    "sklearn.decomposition": "library.PCA(2).fit(x).transform(x)",
    "sklearn.ensemble": """
for make in (library.RandomForestClassifier, library.RandomForestRegressor): make(2).fit(x, y).score(x, y)
""",
    "sklearn.linear_model": """
for make in (library.LinearRegression, library.LogisticRegression): make().fit(x, y).score(x, y)
""",
    "sklearn.metrics": """
library.accuracy_score(y, y), library.confusion_matrix(y, y), library.classification_report(y, y)
library.mean_squared_error(y, y), library.r2_score(y, y), library.silhouette_score(x, y)
""",
    "sklearn.model_selection": """
from sklearn.dummy import DummyClassifier
library.train_test_split(x, y, test_size=0.25, random_state=0), library.cross_val_score(DummyClassifier(), x, y, cv=2)
""",
    "sklearn.neighbors": "library.KNeighborsClassifier(3).fit(x, y).score(x, y)",
    "sklearn.preprocessing": """
for make in (library.StandardScaler, library.MinMaxScaler, library.PolynomialFeatures): make().fit_transform(x)
library.LabelEncoder().fit_transform(["a", "b"]), library.OneHotEncoder().fit_transform(x)
""",
    "sklearn.tree": "library.DecisionTreeClassifier().fit(x, y).score(x, y)",
}
"""Module -> lines of programs such as BigCodeBench's: its commonest uses, on a table `x` and labels `y`."""


def warm_up() -> None:
    """Use the libraries that have been imported. One that fails at it has its programs start more slowly, no more."""
    state = random.getstate()
    numpy_random: Any = importlib.import_module("numpy.random") if "numpy" in sys.modules else None
    numpy_state = numpy_random and numpy_random.get_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _USES:
            if name in sys.modules:
                with suppress(Exception):
                    use_library(name)
    random.setstate(state)
    if numpy_random:
        numpy_random.set_state(numpy_state)


def use_library(name: str) -> None:
    """Put an imported library to its commonest uses. Raises whatever it does."""
    rows, labels = [[float(i % 7), float(i * i % 11)] for i in range(24)], [int(i % 7 > 3) for i in range(24)]
    pandas = sys.modules.get("pandas")
    x: Any = rows if pandas is None else pandas.DataFrame(rows, columns=["a", "b"])  # as most programs have them
    exec(_USES[name], {"library": sys.modules[name], "io": io, "rows": rows, "x": x, "y": labels})
