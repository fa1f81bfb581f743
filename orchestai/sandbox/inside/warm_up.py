"""What libraries do only when they are first used, done once in the fork server: else every program would do it again.

They import modules late, look at signatures, fill caches. So each library that is preloaded is put to its commonest
uses on a small table. What programs can see of the process stays as it was: random numbers, warnings, figures.
"""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .ipc import randomness

_X = [[float(i % 7), float(i * i % 11)] for i in range(24)]
_Y = [int(i % 7 > 3) for i in range(24)]


def warm_up() -> None:
    """Use the libraries that have been imported. One that fails at it has its programs start more slowly, no more."""
    if "numpy" in sys.modules:
        importlib.import_module(
            "numpy.random"
        )  # `numpy` imports it when it is first used: its state is to be kept, too
    states = randomness.get_states()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, use in _USES.items():
            if name in sys.modules:
                with suppress(Exception):
                    use(sys.modules[name])
    randomness.set_states(states)


def _inputs() -> Any:
    """The rows as most programs have them: as a table, where there is pandas."""
    pandas = sys.modules.get("pandas")
    return _X if pandas is None else pandas.DataFrame(_X, columns=["a", "b"])


def _use_numpy(numpy: Any) -> None:
    numpy.random.seed(0)
    array = numpy.random.randn(8, 3) + numpy.random.rand(8, 1) + numpy.random.randint(0, 9, (8, 1))
    numpy.linalg.inv(array.T @ array)
    repr(numpy.sort(array, axis=0).mean(axis=0)), numpy.isclose(array.std(), 1), numpy.percentile(array, 50)


def _use_pandas(pandas: Any) -> None:
    table = pandas.DataFrame({"key": ["x", "y", "z"] * 8, "group": _Y, "a": [x for x, _ in _X], "b": range(24)})
    table["date"] = pandas.to_datetime(["2024-01-01"] * 24)
    table.groupby("key").agg(mean=("a", "mean"), size=("b", "size")).reset_index().sort_values("mean")
    table.groupby("group")["a"].sum(), table["key"].value_counts(), table["key"].str.upper()
    table.merge(table[["key", "b"]], on="key"), table.pivot_table(values="a", index="key", columns="group")
    pandas.concat([table[["a"]], table[["b"]] ** 2], axis=1).corr()
    table.join(table["a"].rename("c")).assign(d=lambda t: t["a"] > 1).fillna(0).dropna().drop(columns="d").describe()
    table["a"].apply(lambda value: value + 1), table[table["a"] > 2].loc[:, "b"].iloc[0], table.to_numpy()
    pandas.read_csv(io.StringIO(table.to_csv(index=False))), repr(table), table.equals(table.copy())
    table["date"].dt.year, table.to_dict("records"), pandas.date_range("2024-01-01", periods=3)


def _use_scipy_stats(stats: Any) -> None:
    values = [x for x, _ in _X]
    stats.norm.pdf(values, *stats.norm.fit(values)), stats.ttest_ind(values, values[:9]), stats.zscore(values)
    stats.pearsonr(values, values), stats.skew(values), stats.mode(values)


def _use_pyplot(pyplot: Any) -> None:
    try:
        figure, axes = pyplot.subplots()
        axes.plot([1, 2], label="line"), axes.bar(["a", "b"], [1, 2]), axes.hist([1, 2, 2]), axes.scatter([1], [2])
        axes.set(title="title", xlabel="x", ylabel="y"), axes.legend(), axes.get_xticklabels()
        figure.canvas.draw()
    finally:
        pyplot.close("all")


def _use_model_selection(selection: Any) -> None:
    from sklearn.dummy import DummyClassifier

    selection.train_test_split(_inputs(), _Y, test_size=0.25, random_state=0)
    selection.cross_val_score(DummyClassifier(), _inputs(), _Y, cv=2)


def _use_metrics(metrics: Any) -> None:
    metrics.accuracy_score(_Y, _Y), metrics.confusion_matrix(_Y, _Y), metrics.classification_report(_Y, _Y)
    metrics.mean_squared_error(_Y, _Y), metrics.r2_score(_Y, _Y), metrics.silhouette_score(_inputs(), _Y)


def _use_preprocessing(preprocessing: Any) -> None:
    for scaler in (preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2)):
        scaler.fit_transform(_inputs())
    preprocessing.LabelEncoder().fit_transform(["a", "b"]), preprocessing.OneHotEncoder().fit_transform(_inputs())


def _fit(*estimators: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Fits what each makes of a module, and has it predict or transform."""

    def use(module: Any) -> None:
        for make in estimators:
            fitted = make(module).fit(_inputs(), _Y)
            (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(_inputs())
            if hasattr(fitted, "score"):
                fitted.score(_inputs(), _Y)

    return use


_USES: dict[str, Callable[[Any], None]] = {
    "numpy": _use_numpy,
    "pandas": _use_pandas,
    "scipy.stats": _use_scipy_stats,
    "matplotlib.pyplot": _use_pyplot,
    "sklearn.cluster": _fit(lambda cluster: cluster.KMeans(2, n_init=2, random_state=0)),
    "sklearn.decomposition": _fit(lambda decomposition: decomposition.PCA(2)),
    "sklearn.ensemble": _fit(
        lambda ensemble: ensemble.RandomForestClassifier(2), lambda ensemble: ensemble.RandomForestRegressor(2)
    ),
    "sklearn.linear_model": _fit(lambda linear: linear.LinearRegression(), lambda linear: linear.LogisticRegression()),
    "sklearn.metrics": _use_metrics,
    "sklearn.model_selection": _use_model_selection,
    "sklearn.neighbors": _fit(lambda neighbors: neighbors.KNeighborsClassifier(3)),
    "sklearn.preprocessing": _use_preprocessing,
    "sklearn.tree": _fit(lambda tree: tree.DecisionTreeClassifier()),
}
"""Module -> its commonest uses in programs such as BigCodeBench's."""
