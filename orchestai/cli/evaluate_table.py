"""`orchestai evaluate-table`: choosing workers on an outcome table, against the field's routers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, JsonFile, Overrides, console, flag


def evaluate_table(
    table: Annotated[list[Path], flag("table", "File or folder of outcomes; may be given several times.")],
    reader: Annotated[
        str,
        flag(
            "reader",
            "What it is: csv, parquet, jsonl, routerbench, routellm, llmrouter, or a reader of your own, "
            "MODULE:FUNCTION.",
        ),
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="FIELD=COLUMN,... for csv, parquet and jsonl: query=prompt,worker=model, ..."),
    ] = None,
    seeds: Annotated[int, flag("seeds", "Number of splits.")] = 3,
    config: ConfigFile = CONFIG,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Compare routers on an outcome table: AIQ, APGR and more, with intervals, on queries that nothing learned from."""
    from orchestai.config import load_config
    from orchestai.data.tables import read_outcome_table
    from orchestai.data.tables.long_form import parse_columns
    from orchestai.evaluation.tables.baselines import BASELINES
    from orchestai.evaluation.tables.query_features import query_features
    from orchestai.evaluation.tables.table_evaluation import evaluate_table as run_evaluation
    from orchestai.evaluation.tables.table_report import to_dict, to_table
    from orchestai.storage import artifacts

    loaded = load_config(config, overrides or [])
    outcomes = read_outcome_table(table, reader, parse_columns(columns or []))
    for reason, count in outcomes.unusable.items():
        console.print(f"left out: {count} x {reason}", highlight=False)
    with console.status("embedding the queries") as status:
        features = query_features(outcomes.texts, loaded.workers.models_dir)
        evaluation = run_evaluation(outcomes, features, BASELINES, seeds=range(seeds), progress=status.update)
    console.print(to_table(evaluation))
    if json_path is not None:
        paths = [str(path) for path in table]
        artifacts.write_json(
            json_path, to_dict(evaluation) | {"paths": paths, "reader": reader, "versions": artifacts.versions()}
        )
        console.print(f"written: {json_path}", highlight=False)
